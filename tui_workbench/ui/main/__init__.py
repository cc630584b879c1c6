"""The main screen: layout, questions, the start of runs, changes, project state and the saved session.

The content of a pane belongs to the folder of its feature, and the run bar to `ui.starting`.
"""
