"""The screen that shows the trace of calls.

The code that reads the trace is in `core.trace_reading`.
"""
