"""Store the metrics of an ended run: a summary, and a cache of the curves of large runs.

`metrics.json` is the summary, for people and other programs. `metrics.cache` contains all curves as binary numbers, so
that opening a million points takes no longer than reading 24 MB. The cache can be deleted. The controller writes both
files atomically. They are valid as long as their source files are unchanged.

Format of the cache: MAGIC, length of the header (8 bytes, little-endian), header (JSON), items (JSON), and numbers
(doubles). The header contains the number of bytes of the items, the number and byte order of the doubles, and for each
curve its number of points, and the indices of its first step, value and time in the numbers. Equal columns are stored
once: metrics that a script logs together have the same steps, and often the same times.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import sys
import zlib
from array import array
from typing import Any, NamedTuple

from tui_workbench.core.files import LARGEST, load_json, open_regular, unlink_below, write_below
from tui_workbench.runs.metrics.values import SCALAR, LoggedItem, MetricSummary, Series, json_number, number
from tui_workbench.runs.store.rundir import METRICS, METRICS_CACHE, METRICS_SUMMARY, OUTPUT

SCHEMA = 1
MAGIC = b"workbench metrics 4\n"

CACHE_FROM = 20_000  # minimum number of points for a cache; parsing fewer points takes at most 40 ms
LONGEST_CURVE = 4 << 20  # maximum number of points of a cached curve

_NUMBER_BYTES = 8


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


class Stored:
    """An open cache. A curve is read when it is requested."""

    def __init__(self, path: str, summary: dict[str, Any], head: dict[str, Any], items_at: int) -> None:
        """Check the parsed `summary` and header `head`. Raises ValueError, TypeError or KeyError."""
        self._path = path
        self._items_at, self._items_size = items_at, int(head["items"])
        self._swapped = head["order"] != sys.byteorder
        self._numbers_at = items_at + self._items_size
        self._places: dict[str, tuple[int, list[int]]] = {}  # number of points, and indices of the columns
        numbers = int(head["numbers"])
        self.size = self._numbers_at + numbers * _NUMBER_BYTES
        for name, (count, *places) in head["curves"].items():
            if not 0 <= count <= LONGEST_CURVE or len(places) != len(Series._fields):
                raise ValueError(f"{count} points in {len(places)} columns")
            if any(not 0 <= int(place) <= numbers - count for place in places):
                raise ValueError(f"columns at {places}")
            self._places[name] = (int(count), [int(place) for place in places])
        if not 0 <= self._items_size <= LARGEST:
            raise ValueError(f"{self._items_size} bytes of items")
        self.notes = [str(note) for note in summary["notes"]]
        self.summary = {name: _summary(name, values) for name, values in summary["metrics"].items()}

    def series(self, name: str) -> Series | None:
        """Read a curve. Return None if the cache was deleted."""
        count, places = self._places[name]
        parts: list[array[float]] = []
        with contextlib.suppress(OSError, ValueError), open_regular(self._path) as file:
            for place in places:
                file.seek(self._numbers_at + place * _NUMBER_BYTES)
                parts.append(array("d", file.read(count * _NUMBER_BYTES)))
        if [len(part) for part in parts] != [count] * len(places):
            return None
        if self._swapped:
            for part in parts:
                part.byteswap()
        return Series(*parts)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def items(self) -> list[LoggedItem]:
        faults = (OSError, ValueError, TypeError, RecursionError)
        with contextlib.suppress(*faults), open_regular(self._path) as file:
            file.seek(self._items_at)
            return [LoggedItem(**values) for values in json.loads(file.read(self._items_size))]
        return []


def open_cache(directory: str, rules: bytes) -> Stored | None:
    """Open the cache of a run. Return None if it does not match the files of the run and the rules of the project."""
    path = f"{directory}/{METRICS_CACHE}"
    summary = read_summary(directory)
    if summary is None or summary.get("rules") != zlib.crc32(rules):
        return None
    try:
        with open_regular(path) as file:
            size = int.from_bytes(file.read(8), "little") if file.read(len(MAGIC)) == MAGIC else LARGEST + 1
            if size > LARGEST:
                return None
            head = json.loads(file.read(size))
            stored = Stored(path, summary, head, file.tell())
            is_of_run = all(head[key] == value for key, value in _origin(directory, rules).items())
            return stored if is_of_run and os.fstat(file.fileno()).st_size == stored.size else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None  # the caller parses the source files again


def write(directory: str, contents: Contents) -> None:
    """Store the metrics of an ended run. Raises OSError."""
    if contents.points >= CACHE_FROM or contents.is_long:
        write_below(directory, METRICS_CACHE, _cache(directory, contents))
    elif os.path.lexists(f"{directory}/{METRICS_CACHE}"):
        unlink_below(directory, METRICS_CACHE)
    text = json.dumps(
        {
            "schema": SCHEMA,
            **_origin(directory, contents.rules),
            "metrics": {name: _values(summary) for name, summary in contents.summary.items()},
            "notes": contents.notes,
            "files": contents.files,
        },
        indent=1,
    )
    write_below(directory, METRICS_SUMMARY, [text.encode() + b"\n"])


def read_summary(directory: str) -> dict[str, Any] | None:
    """Read `metrics.json` of a run. Return None if it is missing, from another version, or does not match the logs."""
    try:
        found = load_json(f"{directory}/{METRICS_SUMMARY}")
        if found["schema"] != SCHEMA or not isinstance(found["metrics"], dict):
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if _sizes(directory) == found.get("sizes") else None


def last_values(stored: dict[str, Any]) -> dict[str, float | str]:
    """Return the last value of each scalar and text metric in a parsed `metrics.json`."""
    lasts = {name: metric.get("last") for name, metric in stored["metrics"].items() if isinstance(metric, dict)}
    found = {name: last if (value := number(last)) is None else value for name, last in lasts.items()}
    return {name: value for name, value in found.items() if isinstance(value, float | str)}


def _sizes(directory: str) -> list[int]:
    """Return the sizes of `metrics.jsonl` and the log in bytes, or -1 for a missing file."""
    found = []
    for name in (METRICS, OUTPUT):
        try:
            found.append(os.stat(f"{directory}/{name}").st_size)
        except OSError:
            found.append(-1)
    return found


def _origin(directory: str, rules: bytes) -> dict[str, object]:
    return {"sizes": _sizes(directory), "rules": zlib.crc32(rules)}


def _cache(directory: str, contents: Contents) -> list[bytes | array[float]]:
    """Return the parts of the cache file, in order."""
    items = json.dumps([item._asdict() for item in contents.items], separators=(",", ":")).encode()
    columns: list[array[float]] = []
    places: dict[bytes, int] = {}  # index of each column in the numbers, by the hash of the column
    curves: dict[str, list[int]] = {}
    numbers = 0
    for name, series in contents.series.items():
        curves[name] = [len(series.values)]
        for column in series:
            place = places.setdefault(hashlib.sha256(column).digest(), numbers)
            if place == numbers:
                columns.append(column)
                numbers += len(column)
            curves[name].append(place)
    head = {
        **_origin(directory, contents.rules),
        "order": sys.byteorder,
        "items": len(items),
        "numbers": numbers,
        "curves": curves,
    }
    data = json.dumps(head, separators=(",", ":")).encode()
    return [MAGIC + len(data).to_bytes(8, "little") + data, items, *columns]


def _values(summary: MetricSummary) -> dict[str, Any]:
    """Convert a summary to JSON values, without its name."""
    values = summary._asdict()
    del values["name"]
    return {key: json_number(value) if isinstance(value, float) else value for key, value in values.items()}


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
