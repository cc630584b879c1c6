"""Modules for every layer: values, errors, files, locks, processes, progress and the trace of calls."""
