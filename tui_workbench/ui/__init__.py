"""The screens, opened by `start.run`. Each folder holds a feature.

`screens` lists the screens and panes that are imported only when they are opened. The command line uses `start`, the
commands and their keys, the themes, the saved sessions, the capabilities of the terminal, and the server for browsers.
It uses nothing else of this package.
"""
