"""The trace of calls on the screen.

Reading the trace belongs to `core.trace_reading`.
"""
