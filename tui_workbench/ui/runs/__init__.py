"""Lists of runs, comparison, and actions on a run.

The details of a run belong to `ui.details`, the run dashboard to `ui.dashboard`.
"""
