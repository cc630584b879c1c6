"""workbench-tui: the GPU training workbench in a terminal.

Importing this package imports nothing else, so the command line can answer before anything heavy is loaded.
"""

__version__ = "0.1.0"
