"""Modules that all layers use: value types, errors, files, locks, processes, progress and the trace of calls."""
