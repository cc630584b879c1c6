"""The run directory and the index of runs: records, annotations, filters and the registry of the user's runs.

Nothing here starts or ends a run.
"""
