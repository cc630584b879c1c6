"""The Log pane and the log view. Reading log files belongs to `runs.logs`."""
