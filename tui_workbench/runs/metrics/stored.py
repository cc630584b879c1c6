"""Store the metrics of an ended run: a summary, and a cache of the curves of large runs.

`metrics.json` is the summary, for people and other programs. `metrics.cache` contains all curves as binary numbers, so
that opening a million points takes no longer than reading 24 MB. The parts (see `parts`) contain the first points of a
large run. The cache can be deleted. The controller writes both files atomically. They are valid as long as their source
files are unchanged. `curves_file` describes the format of the cache.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, NamedTuple

from tui_workbench.core.files import load_json, unlink_below, write_below
from tui_workbench.core.json_values import read_as
from tui_workbench.runs.metrics.curves_file import FAULTS, CurvesFile, file_of_curves
from tui_workbench.runs.metrics.parts import open_parts
from tui_workbench.runs.metrics.values import (
    SCALAR,
    Begin,
    LoggedItem,
    MetricSummary,
    Series,
    joined,
    json_number,
    number,
)
from tui_workbench.runs.store.annotations import LONGEST_NAME, LONGEST_TEXT, MOST_SCRIPT_TAGS, script_tags
from tui_workbench.runs.store.logged import logged_size
from tui_workbench.runs.store.rundir import METRICS_CACHE, METRICS_SUMMARY, OUTPUT

SCHEMA = 1

CACHE_FROM = 20_000  # minimum number of points for a cache; parsing fewer points takes at most 40 ms


class Contents(NamedTuple):
    """The metrics of a run to store."""

    summary: dict[str, MetricSummary]
    series: dict[str, Series]
    items: list[LoggedItem]
    notes: list[str]
    files: list[str]  # source files except for the log and metrics.jsonl, relative to the run directory
    rules: bytes
    points: int
    is_long: bool  # a new reader would skip a part of the log
    parts: int  # number of parts with the points before those of `series`
    begins: dict[str, list[Begin]]  # the sessions of each curve after the first, if there are any


class Stored:
    """An open cache. A curve is read when it is requested."""

    def __init__(self, summary: dict[str, Any], files: Sequence[CurvesFile]) -> None:
        """Check the parsed `summary`. `files` are the parts and the cache. Raises one of FAULTS."""
        self._files = files
        self.notes = [str(note) for note in summary["notes"]]
        self.summary = {name: _summary(name, values) for name, values in summary["metrics"].items()}
        self.begins = {name: _begins(values) for name, values in summary.get("begins", {}).items()}

    def series(self, name: str) -> Series | None:
        """Read a curve. Return None if the cache or a part was deleted."""
        try:
            return joined([file.series(name) for file in self._files if name in file])
        except OSError:
            return None

    def __contains__(self, name: str) -> bool:
        return name in self._files[-1]

    def items(self) -> list[LoggedItem]:
        return self._files[-1].items()


def open_cache(directory: str, rules: bytes) -> Stored | None:
    """Open the cache of a run. Return None if it does not match the files of the run and the rules of the project."""
    summary = read_summary(directory)
    if summary is None or summary.get("rules") != zlib.crc32(rules):
        return None
    try:
        cache = CurvesFile(f"{directory}/{METRICS_CACHE}")
        parts = open_parts(directory, cache.head["parts"])
        is_of_run = all(cache.head[key] == value for key, value in _origin(directory, rules).items())
        return Stored(summary, [*parts, cache]) if is_of_run and len(parts) == cache.head["parts"] else None
    except FAULTS:
        return None  # the caller parses the source files again


def write(directory: str, contents: Contents) -> None:
    """Store the metrics of an ended run. Raises OSError."""
    if contents.points >= CACHE_FROM or contents.is_long or contents.parts:
        head = {**_origin(directory, contents.rules), "parts": contents.parts}
        write_below(directory, METRICS_CACHE, file_of_curves(head, contents.items, contents.series))
    elif os.path.lexists(f"{directory}/{METRICS_CACHE}"):
        unlink_below(directory, METRICS_CACHE)
    text = json.dumps(
        {
            "schema": SCHEMA,
            **_origin(directory, contents.rules),
            "metrics": {name: _values(summary) for name, summary in contents.summary.items()},
            "notes": contents.notes,
            "begins": {
                name: [[begin.index, json_number(begin.floor), begin.number] for begin in begins]
                for name, begins in contents.begins.items()
            },
            "files": contents.files,
            "tags": script_tags(directory),
        },
        indent=1,
    )
    write_below(directory, METRICS_SUMMARY, [text.encode() + b"\n"])


class _Metric(NamedTuple):
    """A metric in `metrics.json`."""

    kind: str
    last: Any
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not used
    minimum: Any
    maximum: Any
    source: str


class _Summary(NamedTuple):
    """The keys of `metrics.json` that are read."""

    schema: int
    metrics: Mapping[str, _Metric]
    notes: tuple[str, ...] = ()


def load_summary(directory: str) -> dict[str, Any]:
    """Return the content of `metrics.json` of a run. Raises OSError, or ValueError if it is malformed."""
    summary: dict[str, Any] = load_json(f"{directory}/{METRICS_SUMMARY}")
    if read_as(_Summary, summary).schema != SCHEMA:
        raise ValueError(f"unknown schema {summary['schema']}")
    return summary


def read_summary(directory: str) -> dict[str, Any] | None:
    """Read `metrics.json` of a run. Return None if it is missing, malformed, or does not match the logs."""
    try:
        summary = load_summary(directory)
    except (OSError, ValueError):
        return None
    return summary if _sizes(directory) == summary.get("sizes") else None


def tags_of_script(directory: str, stored: dict[str, Any] | None) -> dict[str, str]:
    """Return the tags that the script of a run logged. `stored` is the parsed `metrics.json`, or None without it.

    Without the stored tags, all lines of the run are read, which takes seconds for a large run.
    """
    tags = (stored or {}).get("tags")
    if not isinstance(tags, dict):
        return script_tags(directory)
    first = islice(tags.items(), MOST_SCRIPT_TAGS)
    return {name[:LONGEST_NAME]: value[:LONGEST_TEXT] for name, value in first if isinstance(value, str)}


def last_values(stored: dict[str, Any]) -> dict[str, float | str]:
    """Return the last value of each scalar and text metric in a parsed `metrics.json`."""
    lasts = {name: metric.get("last") for name, metric in stored["metrics"].items() if isinstance(metric, dict)}
    values = {name: last if (value := number(last)) is None else value for name, last in lasts.items()}
    return {name: value for name, value in values.items() if isinstance(value, float | str)}


def _sizes(directory: str) -> list[int]:
    """Return the sizes of `metrics.jsonl` and the log in bytes, or -1 for a missing file."""
    try:
        output = os.stat(f"{directory}/{OUTPUT}").st_size
    except OSError:
        output = -1
    return [logged_size(directory), output]


def _origin(directory: str, rules: bytes) -> dict[str, object]:
    return {"sizes": _sizes(directory), "rules": zlib.crc32(rules)}


def _values(summary: MetricSummary) -> dict[str, Any]:
    """Convert a summary to JSON values, without its name."""
    values = summary._asdict()
    del values["name"]
    return {key: json_number(value) if isinstance(value, float) else value for key, value in values.items()}


def _begins(values: Sequence[Sequence[Any]]) -> list[Begin]:
    """Parse the begins of the sessions of a curve, whose indices ascend. Raises one of FAULTS."""
    begins = [Begin(int(index), number(floor) or 0.0, int(attempt)) for index, floor, attempt in values]
    if any(first.index > second.index for first, second in pairwise(begins)) or (begins and begins[0].index < 0):
        raise ValueError("the sessions of a curve are not in order")
    return begins


def _summary(name: str, values: dict[str, Any]) -> MetricSummary:
    low, high = number(values["minimum"]), number(values["maximum"])
    return MetricSummary(
        name,
        values["kind"],
        number(values["last"]) if values["kind"] == SCALAR else values["last"],
        values["count"],
        math.nan if low is None else low,
        math.nan if high is None else high,
        values["source"],
    )
