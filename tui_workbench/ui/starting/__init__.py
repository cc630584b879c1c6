"""The start of runs: the run bar, run commands, questions before a start, and shells.

The display of runs belongs to `ui.runs`.
"""
