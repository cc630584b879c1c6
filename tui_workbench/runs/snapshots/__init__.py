"""Manage the files that a run gets from its project, restore snapshots, and collect the provenance of runs.

Files that a run produces belong to `runs.transfer`.
"""
