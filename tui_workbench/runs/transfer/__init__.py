"""Copy the files of runs to other folders, to assets and to the project, and import and export runs.

Transfers between machines during a run belong to `targets`.
"""
