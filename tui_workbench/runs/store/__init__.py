"""Read and write run directories, annotations, and the registry of the user's own runs.

Code that starts or ends runs belongs to `runs.submission` and `runs.lifecycle`.
"""
