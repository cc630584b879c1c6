"""The project as a run gets it: snapshots, working copies, ignore files and restoring.

Files that a run produces belong to `runs.transfer`.
"""
