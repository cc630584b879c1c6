"""Themes: loading, checking and saving them.

The reduction of colors for a terminal belongs to `ui.terminal`, and the choice of a theme to `ui.dialogs`.
"""
