"""Manage the files that a run gets from its project: snapshots, working copies, ignore files, restore, provenance.

Files that a run produces belong to `runs.transfer`.
"""
