"""The start screen, and reading a project that is opened.

The panes of an open project are in the other folders.
"""
