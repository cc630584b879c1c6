"""The server that shows the screens in a browser.

The screens are the same as in a terminal.
"""
