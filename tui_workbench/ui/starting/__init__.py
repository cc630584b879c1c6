"""The start of runs: the run bar, the commands about runs, what is asked before one starts, and a shell.

What is shown of runs belongs to `ui.runs`.
"""
