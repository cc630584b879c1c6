"""Find the curves of each metric in the sources of a run, and summarize them."""

from __future__ import annotations

import math
import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tui_workbench.runs.metrics.sessions import backward_steps, valid_points
from tui_workbench.runs.metrics.tail import Reader
from tui_workbench.runs.metrics.values import (
    FILE,
    LIST,
    SCALAR,
    SDK,
    SOURCES,
    TAG,
    TEXT,
    UPLOAD,
    Begin,
    Column,
    Columns,
    MetricSummary,
    Series,
    joined,
    number,
)

TABLE_ENDINGS = frozenset((".csv", ".tsv", ".jsonl", ".ndjson"))


class Entry(NamedTuple):
    """A metric and the columns that contain it."""

    source: str
    name: str  # as in the files
    columns: tuple[Columns, ...]

    def curves(self) -> list[Column]:
        return [curve for columns in self.columns if (curve := columns.curves.get(self.name)) is not None]

    def in_memory(self) -> list[Series]:
        """Return the points of each curve that are not in parts."""
        return [curve.in_memory() for curve in self.curves()]

    def series(self) -> Series:
        """Return all points, of all files. The arrays of a curve from one file grow with it. Raises OSError."""
        return joined([curve.series() for curve in self.curves()])

    def begins(self, later_attempts: int) -> list[Begin]:
        """Return the sessions after the first. `later_attempts` is the number of attempts of the run after the first.

        A file is a new session if its first value is later than all values of the files before it. Otherwise, several
        processes wrote the files at the same time.
        """
        begins: list[Begin] = []
        size, last = 0, math.nan
        for columns in self.columns:
            curve = columns.curves.get(self.name)
            if curve is None:
                begins += [Begin(size, floor, attempt) for floor, attempt in columns.sessions]
                continue
            if size and curve.times and curve.times[0] >= last:
                begins.append(Begin(size))
            begins += [begin._replace(index=size + begin.index) for begin in curve.begins_until_now(columns.sessions)]
            size += curve.stored
            last = curve.times[-1] if not last > curve.times[-1] else last  # `last` is NaN before the first file
        if self.source == FILE and not begins and later_attempts:
            return backward_steps(self.series().steps, later_attempts)
        return begins


def catalog(sources: Sequence[Reader], ignores: Callable[[str], bool]) -> dict[str, Entry]:
    """Return the entries of all metrics by display name. Ignored names are omitted, unless the SDK logged them.

    If a name occurs in several groups (folders or tables) of a source, its display name has the label of the group as
    prefix. Names in folders for training and validation always have this prefix.
    """
    entries: dict[str, Entry] = {}
    for kind in SOURCES:
        groups: dict[str, list[Reader]] = {}
        for source in sources:
            if source.source == kind:
                groups.setdefault(source.group, []).append(source)
        names_of = {
            group: dict.fromkeys(name for member in members for name in member.columns.names)
            for group, members in groups.items()
        }
        group_counts = Counter(name for names in names_of.values() for name in names)
        labels = distinct_labels(list(groups))
        for group, members in groups.items():
            columns = tuple(member.columns for member in members)
            for name in names_of[group]:
                label = labels[group]
                is_labeled = group_counts[name] > 1 or (members[0].always_labeled and not name.startswith(f"{label}/"))
                shown = f"{label}/{name}" if is_labeled else name
                if kind == SDK or not ignores(shown):
                    entries.setdefault(shown, Entry(kind, name, columns))
    return entries


def distinct_labels(paths: list[str]) -> dict[str, str]:
    """Return the shortest unique suffix of each path, without the file extension of tables."""
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


def list_series(items: object) -> Series:
    """Convert a logged list to a curve over its indices."""
    values = array("d")
    for item in items if isinstance(items, list) else ():
        value = number(item)
        values.append(math.nan if value is None else value)
    return Series(array("d", range(len(values))), values, array("d", [math.nan]) * len(values))


def summary_of_curves(name: str, entry: Entry, begins: Sequence[Begin]) -> MetricSummary:
    """Return the summary of a metric: of its valid points, or of its texts. Raises OSError."""
    curves = [curve for curve in entry.curves() if curve.values]
    if not curves:
        texts = [text for columns in entry.columns if (text := columns.texts.get(entry.name)) is not None]
        total = sum(count for _, count in texts)
        return MetricSummary(name, TEXT, texts[-1][0], total, math.nan, math.nan, entry.source)
    if begins:
        return _summary_of_sessions(name, entry, begins)
    extremes = [curve.extremes() for curve in curves]
    low, high = min(low for low, _ in extremes), max(high for _, high in extremes)
    return MetricSummary(
        name,
        SCALAR,
        curves[-1].values[-1],
        sum(curve.count for curve in curves),
        low if low <= high else math.nan,
        high if low <= high else math.nan,
        entry.source,
    )


def _summary_of_sessions(name: str, entry: Entry, begins: Sequence[Begin]) -> MetricSummary:
    values = valid_points(entry.series(), begins).values
    left_out = sum(curve.left_out for curve in entry.curves())
    low, high = _range_of(values)
    return MetricSummary(name, SCALAR, values[-1] if values else None, len(values) + left_out, low, high, entry.source)


def _range_of(values: Iterable[float]) -> tuple[float, float]:
    """Return the smallest and the largest value except for NaN; NaN without other values."""
    numbers = [value for value in values if value == value]
    return min(numbers, default=math.nan), max(numbers, default=math.nan)


def item_summaries(columns: Columns, source: str) -> dict[str, MetricSummary]:
    """Return the summaries of lists, rows, tables, confusion matrices and images by name."""
    items = [item for item in columns.items if item.kind not in (TAG, UPLOAD)]
    lasts = {item.name: item for item in items}
    counts = Counter(item.name for item in items)
    summaries = {}
    for name, item in lasts.items():
        low, high = _range_of(list_series(item.value).values if item.kind == LIST else ())
        summaries[name] = MetricSummary(name, item.kind, None, counts[name], low, high, source)
    return summaries
