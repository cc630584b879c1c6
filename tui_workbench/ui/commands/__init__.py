"""The registry of commands with their keys, and jump mode.

The code that executes a command belongs to the folder of its feature. The palette and the help belong to `ui.dialogs`.
"""
