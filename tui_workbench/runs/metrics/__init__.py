"""Metrics of a run: whatever its script has told of them, wherever it has.

Sources are `metrics.jsonl` (the SDK), TensorBoard event files, tables that the script writes, and progress lines of its
output. Everything is read incrementally, and reading never writes into the run. Of two sources that know a name the
better one counts (`values.SOURCES`).
"""

from __future__ import annotations

from tui_workbench.runs.metrics.run_metrics import RunMetrics, tells_nothing
from tui_workbench.runs.metrics.stored import last_values, read_summary
from tui_workbench.runs.metrics.values import LoggedItem, MetricSummary, Series, downsample

__all__ = ["LoggedItem", "MetricSummary", "RunMetrics", "Series", "downsample", "summary_of"]


AT_MOST = 128 << 10
"""Bytes of each log that a list of runs reads of a run that goes on: 30 ms where every line tells of metrics."""


def summary_of(directory: str) -> dict[str, float | str]:
    """The last value of every metric of the run at `directory` that is a number or a text.

    Of a run that has ended it is what was stored at its end, as long as its files have not grown since. Of any other it
    is what the beginnings and the ends of its logs tell: who lists runs again and again cannot read gigabytes.
    """
    stored = read_summary(directory)
    if stored is not None:
        return last_values(stored)
    if tells_nothing(directory):
        return {}
    metrics = RunMetrics(directory, at_most=AT_MOST)
    metrics.refresh()
    return {name: found.last for name, found in metrics.summary().items() if found.last is not None}
