"""The start screen, and the code that reads a project when it is opened.

The panes of an open project are in the other folders.
"""
