"""Jobs of a Slurm cluster: submitting once, following all jobs of a login together, and their ends.

Only this folder knows Slurm's commands. Copying projects and fetching files are in `hosts`.
"""
