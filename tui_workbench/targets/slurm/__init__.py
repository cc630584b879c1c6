"""Execute runs as jobs of a Slurm cluster: submit a job once, follow all jobs of a login, and read their outcomes.

Only this package calls Slurm's commands. Copying projects and fetching files are in `hosts`.
"""
