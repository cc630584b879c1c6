"""Charts of curves in a terminal.

Which curves a chart shows is decided by its users.
"""
