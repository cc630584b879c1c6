"""Parts that every layer uses: values, errors, files, locks, processes, progress and the trace of calls.

Nothing here knows a project, a run or a compute target.
"""
