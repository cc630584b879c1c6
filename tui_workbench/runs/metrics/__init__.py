"""Read the metrics of a run from all sources that its script writes.

Sources are `metrics.jsonl` (the SDK), TensorBoard event files, tables, and progress lines of the output.
They are read incrementally, and reading never changes the run directory. If several sources contain a metric of the
same name, the first source in `values.SOURCES` is used.
"""

from __future__ import annotations

from typing import Any

from tui_workbench.runs.metrics.run_metrics import RunMetrics, has_no_metrics
from tui_workbench.runs.metrics.stored import last_values, read_summary
from tui_workbench.runs.metrics.values import LoggedItem, MetricSummary, Series, downsample

__all__ = ["LoggedItem", "MetricSummary", "RunMetrics", "Series", "downsample", "summary_of"]


AT_MOST = 128 << 10  # bytes of each log that `summary_of` reads if no summary is stored; this takes at most 30 ms


def summary_of(directory: str, stored: dict[str, Any] | None = None) -> dict[str, float | str]:
    """Return the last value of each scalar and text metric of the run at `directory` by name.

    For an ended run with unchanged files, the values come from the stored summary. Otherwise, only the beginning and
    the end of each log are read, because lists of runs call this function often, and logs can be gigabytes long.
    `stored` is the parsed summary if the caller has read it.
    """
    stored = stored or read_summary(directory)
    if stored is not None:
        return last_values(stored)
    if has_no_metrics(directory):
        return {}
    metrics = RunMetrics(directory, at_most=AT_MOST)
    metrics.refresh()
    return {name: summary.last for name, summary in metrics.summary().items() if summary.last is not None}
