"""workbench-tui: the GPU training workbench in a terminal.

Importing this package imports nothing else, so the command line can answer before anything heavy is loaded.
"""

__version__ = "0.1.0"

progress_bar: object = None
"""What a front end that waits for its own work has set: called, it gives a listener for `tui_workbench.progress`."""
