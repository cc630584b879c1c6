"""Logs of runs: reading by byte offset, searching, tracebacks and the output of ranks.

Metrics found in logs belong to `runs.metrics`.
"""
