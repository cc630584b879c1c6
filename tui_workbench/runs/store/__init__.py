"""Read and write run directories, the index of runs, annotations, and the registry of the user's own runs.

Code that starts or ends runs belongs to `runs.submission` and `runs.lifecycle`.
"""
