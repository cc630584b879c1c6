"""The Files pane and the readme.

Open files belong to `ui.editor`.
"""
