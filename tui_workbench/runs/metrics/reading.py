"""All sources of one run as one set of metrics."""

from __future__ import annotations

import math
from array import array

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.metrics.logged import Logged
from tui_workbench.runs.metrics.values import SCALAR, TAG, TEXT, UPLOAD, MetricSummary, Series

if TYPE_CHECKING:
    from tui_workbench.runs.metrics.columns import Columns
    from tui_workbench.runs.metrics.values import LoggedItem

METRICS = "metrics.jsonl"


class RunMetrics:
    """The metrics of the run at `directory`, read incrementally. Reading never writes into the run.

    Not for several threads at once.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._sources = [Logged(f"{directory}/{METRICS}")]

    def refresh(self) -> bool:
        """Read what is new; True when something came."""
        something = False
        for source in self._sources:
            something = source.refresh() or something
        return something

    def summary(self) -> dict[str, MetricSummary]:
        """Every metric by its name, in the order in which they first came."""
        found: dict[str, MetricSummary] = {}
        for source in self._sources:
            for summary in _summaries(source.columns, source.source):
                found.setdefault(summary.name, summary)
        return found

    def series(self, name: str) -> Series:
        """The curve of a metric; an empty one when there is none of this name."""
        for source in self._sources:
            curve = source.columns.curves.get(name)
            if curve is not None:
                return curve.series()
        return Series(array("d"), array("d"), array("d"))

    def items(self, kind: str) -> list[LoggedItem]:
        """What was logged of a kind: lists, rows, tables, confusion matrices, images, tags or uploads, in order."""
        return [item for source in self._sources for item in source.columns.items if item.kind == kind]

    def notes(self) -> list[str]:
        """What a person should know about what could not be read or is not kept, a clause each."""
        return []


def _summaries(columns: Columns, source: str) -> list[MetricSummary]:
    found: list[MetricSummary] = []
    for name, curve in columns.curves.items():
        curve.measure()
        last = curve.values[-1]
        found.append(MetricSummary(name, SCALAR, last, len(curve.values), curve.minimum, curve.maximum, source))
    for name, (text, count) in columns.texts.items():
        found.append(MetricSummary(name, TEXT, text, count, math.nan, math.nan, source))
    counts: dict[tuple[str, str], int] = {}
    for item in columns.items:
        if item.kind not in (TAG, UPLOAD):
            counts[item.name, item.kind] = counts.get((item.name, item.kind), 0) + 1
    for (name, kind), count in counts.items():
        found.append(MetricSummary(name, kind, None, count, math.nan, math.nan, source))
    return found
