"""The main screen: layout, panes, the run bar and the start of runs.

The content of a pane belongs to the folder of its feature.
"""
