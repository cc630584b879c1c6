"""Read and search the logs of runs: lines by byte offset, tracebacks, the output of ranks, and event logs of Spark.

Metrics in logs belong to `runs.metrics`.
"""
