"""The screens, opened by `start.run`. Each folder holds a feature.

`screens` lists the screens and panes that are imported only when they are opened. Of this package, the command line
uses only `start`, the commands and their keys, the themes, the saved sessions, the capabilities of the terminal, and
the server for browsers.
"""
