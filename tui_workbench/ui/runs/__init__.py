"""Lists of runs, comparison, and commands on a run. See also `ui.details` and `ui.dashboard`."""
