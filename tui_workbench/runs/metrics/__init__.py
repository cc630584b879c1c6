"""The metrics of a run, from every source that its script writes.

Sources are `metrics.jsonl` (the SDK), TensorBoard event files, tables that the script writes, and progress lines of its
output. Sources are read incrementally, and reading never writes into the run. If two sources have a metric of the same
name, the first of `values.SOURCES` wins.
"""

from __future__ import annotations

from tui_workbench.runs.metrics.run_metrics import RunMetrics, has_no_metrics
from tui_workbench.runs.metrics.stored import last_values, read_summary
from tui_workbench.runs.metrics.values import LoggedItem, MetricSummary, Series, downsample

__all__ = ["LoggedItem", "MetricSummary", "RunMetrics", "Series", "downsample", "summary_of"]


AT_MOST = 128 << 10  # bytes of each log of an active run that a list of runs reads: at most 30 ms


def summary_of(directory: str) -> dict[str, float | str]:
    """Return the last value of every number and text metric of the run at `directory`.

    A run that has ended uses its stored summary while its files are unchanged. Otherwise only the beginning and the end
    of each log are read, because lists of runs ask often and logs can hold gigabytes.
    """
    stored = read_summary(directory)
    if stored is not None:
        return last_values(stored)
    if has_no_metrics(directory):
        return {}
    metrics = RunMetrics(directory, at_most=AT_MOST)
    metrics.refresh()
    return {name: found.last for name, found in metrics.summary().items() if found.last is not None}
