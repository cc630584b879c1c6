"""The run bar, the form of a sweep, and shells.

The steps from the Run key to a submitted run belong to `ui.main`, and the display of runs to `ui.runs`.
"""
