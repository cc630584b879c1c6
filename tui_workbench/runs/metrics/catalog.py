"""The curves and texts of many files as metrics with names of their own, each from the best source that tells it."""

from __future__ import annotations

import math
import os
from array import array

from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.runs.metrics.values import LIST, SCALAR, SDK, SOURCES, TAG, TEXT, UPLOAD, MetricSummary, Series

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tui_workbench.records import Protocol
    from tui_workbench.runs.metrics.columns import Column, Columns

    class Source(Protocol):
        """A file that tells metrics."""

        source: str
        path: str
        columns: Columns

        @property
        def unit(self) -> str:
            """What it belongs to with others whose curves continue its own: a folder, or the file itself."""

        @property
        def always_labeled(self) -> bool:
            """Whether the unit's name belongs to the names of its metrics in any case."""


TABLE_ENDINGS = frozenset((".csv", ".tsv", ".jsonl", ".ndjson"))


class Entry(NamedTuple):
    """A metric, and where it stands."""

    source: str
    name: str  # as the files have it
    columns: tuple[Columns, ...]

    def curves(self) -> list[Column]:
        """The parts of its curve."""
        return [found for columns in self.columns if (found := columns.curves.get(self.name)) is not None]


def catalog(sources: Iterable[Source], ignores: Callable[[str], bool]) -> dict[str, Entry]:
    """Every metric by the name that it is shown under.

    What nobody wants is left out, unless the script has logged it itself.

    A name that several folders (or tables) of one kind of source tell gets the folder's name before it in each of
    them, and so do the usual pairs of training and validation.
    """
    found: dict[str, Entry] = {}
    all_sources = list(sources)
    for kind in SOURCES:
        units: dict[str, list[Source]] = {}
        for source in all_sources:
            if source.source == kind:
                units.setdefault(source.unit, []).append(source)
        tellers: dict[str, int] = {}
        names_of: dict[str, dict[str, None]] = {}
        for unit, members in units.items():
            names_of[unit] = dict.fromkeys(name for member in members for name in member.columns.names)
            for name in names_of[unit]:
                tellers[name] = tellers.get(name, 0) + 1
        labels = distinct_labels(list(units))
        for unit, members in units.items():
            columns = tuple(member.columns for member in members)
            for name in names_of[unit]:
                label = labels[unit]
                is_labeled = tellers[name] > 1 or (members[0].always_labeled and not name.startswith(f"{label}/"))
                shown = f"{label}/{name}" if is_labeled else name
                if kind == SDK or not ignores(shown):
                    found.setdefault(shown, Entry(kind, name, columns))
    return found


def distinct_labels(paths: list[str]) -> dict[str, str]:
    """For each path the shortest end of it that no other one has; without an ending of a file's name."""
    parts = {path: _without_ending(path).strip("/").split("/") for path in paths}
    labels: dict[str, str] = {}
    for path in paths:
        for length in range(1, len(parts[path]) + 1):
            label = "/".join(parts[path][-length:])
            if not any(other != path and parts[other][-length:] == parts[path][-length:] for other in paths):
                break
        labels[path] = label
    return labels


def _without_ending(path: str) -> str:
    whole, ending = os.path.splitext(path)
    return whole if ending.lower() in TABLE_ENDINGS else path


def series_of(entry: Entry) -> Series:
    """The curve of a metric, from all the files that tell parts of it."""
    curves = entry.curves()
    if len(curves) == 1:
        return curves[0].series()
    steps, values, times = array("d"), array("d"), array("d")
    for curve in curves:
        steps += curve.steps
        values += curve.values
        times += curve.times
    return Series(steps, values, times)


def list_series(value: object) -> Series:
    """A logged list as a curve over its places."""
    values = array("d")
    for item in value if isinstance(value, list) else ():
        from tui_workbench.runs.metrics.logged import number

        found = number(item)
        values.append(math.nan if found is None else found)
    return Series(array("d", range(len(values))), values, array("d", [math.nan]) * len(values))


def summaries(entries: dict[str, Entry]) -> dict[str, MetricSummary]:
    """What a table shows of every metric."""
    return {name: _summary(name, entry) for name, entry in entries.items()}


def _summary(name: str, entry: Entry) -> MetricSummary:
    curves = [curve for curve in entry.curves() if curve.values]
    if not curves:
        texts = [found for columns in entry.columns if (found := columns.texts.get(entry.name)) is not None]
        count = sum(count for _, count in texts)
        return MetricSummary(name, TEXT, texts[-1][0], count, math.nan, math.nan, entry.source)
    for curve in curves:
        curve.measure()
    known = [curve for curve in curves if not math.isnan(curve.minimum)]
    return MetricSummary(
        name,
        SCALAR,
        curves[-1].values[-1],
        sum(len(curve.values) for curve in curves),
        min((curve.minimum for curve in known), default=math.nan),
        max((curve.maximum for curve in known), default=math.nan),
        entry.source,
    )


def item_summaries(columns: Columns, source: str) -> dict[str, MetricSummary]:
    """The same of what is no curve: lists, rows, tables, confusion matrices and images."""
    counts: dict[str, tuple[str, int]] = {}
    for item in columns.items:
        if item.kind not in (TAG, UPLOAD):
            counts[item.name] = (item.kind, counts.get(item.name, ("", 0))[1] + 1)
    found = {}
    for name, (kind, count) in counts.items():
        low = high = math.nan
        if kind == LIST:
            last = next(item for item in reversed(columns.items) if item.name == name)
            numbers = [value for value in list_series(last.value).values if value == value]
            low, high = min(numbers, default=math.nan), max(numbers, default=math.nan)
        found[name] = MetricSummary(name, kind, None, count, low, high, source)
    return found
