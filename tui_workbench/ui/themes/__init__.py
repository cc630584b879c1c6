"""Themes: loading, checking and choosing them.

The reduction of colors for a terminal belongs to `ui.terminal`.
"""
