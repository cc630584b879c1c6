"""Check the request of a run, plan it, and create its run directory with the snapshot.

Later steps of the run belong to `runs.lifecycle`.
"""
