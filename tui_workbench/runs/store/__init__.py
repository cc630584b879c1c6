"""The run directory and the index of runs: records, annotations, filters and the registry of the user's own runs.

Nothing here starts or ends a run.
"""
