"""The files that a run gets from its project: snapshots, working copies, ignore files and restoring.

Files that a run produces belong to `runs.transfer`.
"""
