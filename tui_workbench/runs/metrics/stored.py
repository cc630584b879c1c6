"""What is kept of the metrics of a run that has ended: a summary, and of large ones the columns themselves.

`metrics.json` is the summary, JSON for people and other programs. `metrics.cache` holds every curve as the bytes of its
numbers, so that a million points open in the time that reading 24 MB takes; it may be deleted at any time. Both are
derived: they are written by the run's controller, atomically, and hold only while the files that they come from are
those that were read.

The cache: MAGIC, length of the head (8 bytes), the head (JSON), the items (JSON), the columns (doubles; the head names
their byte order).
"""

from __future__ import annotations

import json
import math
import os
import sys
from array import array

from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.runs.metrics.logged import number
from tui_workbench.runs.metrics.values import SCALAR, LoggedItem, MetricSummary, Series
from tui_workbench.runs.regular import open_regular
from tui_workbench.runs.rundir import METRICS, METRICS_CACHE, METRICS_SUMMARY, OUTPUT

if TYPE_CHECKING:
    from typing import Any

SCHEMA = 1
MAGIC = b"workbench metrics 1\n"

WORTH_A_CACHE = 20_000
"""Points that take longer to read anew (40 ms) than a person notices."""

_NUMBER_BYTES = 8
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


class Contents(NamedTuple):
    """What there is to keep."""

    summary: dict[str, MetricSummary]
    series: dict[str, Series]
    items: list[LoggedItem]
    notes: list[str]
    files: list[str]  # that were found besides the run's own two; relative to the run where they lie in it
    rules: bytes
    points: int


class Stored:
    """The cache of the run at `directory` as it was opened; curves are read when they are asked for."""

    def __init__(self, path: str, head: dict[str, Any], items_at: int) -> None:
        self._path = path
        self._columns: dict[str, list[int]] = head["columns"]
        self._items_at = items_at
        self._items_size: int = head["items"]
        self._swapped = head["order"] != sys.byteorder
        self._base = items_at + self._items_size
        self.notes: list[str] = head["notes"]
        self.summary = {values[0]: _summary(values) for values in head["metrics"]}

    def series(self, name: str) -> Series | None:
        """A curve that is there by its name; None when the cache is gone by now."""
        offset, count = self._columns[name]
        size = count * _NUMBER_BYTES
        try:
            with open_regular(self._path) as file:
                file.seek(self._base + offset)
                parts = [array("d", file.read(size)) for _ in range(3)]
        except (OSError, ValueError):
            return None
        if any(len(part) != count for part in parts):
            return None
        if self._swapped:
            for part in parts:
                part.byteswap()
        return Series(*parts)

    def __contains__(self, name: str) -> bool:
        """Whether there is a curve of the name."""
        return name in self._columns

    def items(self) -> list[LoggedItem]:
        """Everything that is no curve."""
        try:
            with open_regular(self._path) as file:
                file.seek(self._items_at)
                return [LoggedItem(*values) for values in json.loads(file.read(self._items_size))]
        except (OSError, ValueError, TypeError):
            return []


def open_cache(directory: str, rules: bytes) -> Stored | None:
    """The cache of a run when it holds what its files and the project's rules make; else None."""
    path = f"{directory}/{METRICS_CACHE}"
    try:
        with open_regular(path) as file:
            if file.read(len(MAGIC)) != MAGIC:
                return None
            size = int.from_bytes(file.read(8), "little")
            if size > os.fstat(file.fileno()).st_size:
                return None
            head = json.loads(file.read(size))
            whole = len(MAGIC) + 8 + size + head["items"] + head["bytes"]
            if os.fstat(file.fileno()).st_size != whole or not _is_of(directory, head, rules):
                return None
            return Stored(path, head, len(MAGIC) + 8 + size)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None


def write(directory: str, contents: Contents) -> None:
    """Keep the metrics of a run that has ended. Raises OSError."""
    if contents.points >= WORTH_A_CACHE:
        _replace(f"{directory}/{METRICS_CACHE}", _cache(directory, contents))
    elif os.path.exists(f"{directory}/{METRICS_CACHE}"):
        os.unlink(f"{directory}/{METRICS_CACHE}")
    text = json.dumps(
        {
            "schema": SCHEMA,
            **_origin(directory, contents.rules),
            "metrics": {
                summary.name: dict(zip(MetricSummary._fields[1:], _plain(summary)[1:], strict=True))
                for summary in contents.summary.values()
            },
            "notes": contents.notes,
            "files": contents.files,
        },
        indent=1,
    )
    _replace(f"{directory}/{METRICS_SUMMARY}", [text.encode() + b"\n"])


def read_summary(directory: str) -> dict[str, Any] | None:
    """What `metrics.json` of a run says; None when there is none that this version reads, or its files have grown."""
    try:
        with open_regular(f"{directory}/{METRICS_SUMMARY}") as file:
            found = json.loads(file.read())
        if found["schema"] != SCHEMA or not isinstance(found["metrics"], dict):
            return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if _sizes(directory) == found.get("sizes") else None


def last_values(stored: dict[str, Any]) -> dict[str, float | str]:
    """Of what `metrics.json` says, the last value of every metric that is a number or a text."""
    found: dict[str, float | str] = {}
    for name, metric in stored["metrics"].items():
        last = metric.get("last") if isinstance(metric, dict) else None
        value = number(last)
        if value is not None:
            found[name] = value
        elif isinstance(last, str):
            found[name] = last
    return found


def _sizes(directory: str) -> list[int]:
    """Of the files that a run always tells its metrics in; -1 where there is none."""
    found = []
    for name in (METRICS, OUTPUT):
        try:
            found.append(os.stat(f"{directory}/{name}").st_size)
        except OSError:
            found.append(-1)
    return found


def _origin(directory: str, rules: bytes) -> dict[str, object]:
    import zlib

    return {"sizes": _sizes(directory), "rules": zlib.crc32(rules)}


def _is_of(directory: str, head: dict[str, Any], rules: bytes) -> bool:
    return all(head.get(key) == value for key, value in _origin(directory, rules).items())


def _cache(directory: str, contents: Contents) -> list[bytes | array[float]]:
    """The parts of the cache's file, in order."""
    columns: dict[str, tuple[int, int]] = {}
    parts: list[bytes | array[float]] = []
    offset = 0
    for name, series in contents.series.items():
        columns[name] = (offset, len(series.values))
        parts += series
        offset += 3 * _NUMBER_BYTES * len(series.values)
    items = json.dumps([list(item) for item in contents.items], separators=(",", ":")).encode()
    head = json.dumps(
        {
            **_origin(directory, contents.rules),
            "order": sys.byteorder,
            "metrics": [_plain(summary) for summary in contents.summary.values()],
            "columns": columns,
            "items": len(items),
            "bytes": offset,
            "notes": contents.notes,
        },
        separators=(",", ":"),
    ).encode()
    return [MAGIC + len(head).to_bytes(8, "little") + head, items, *parts]


def _replace(path: str, parts: list[bytes | array[float]]) -> None:
    """Write a file under another name and give it its own: nobody sees half of it.

    It is not waited for to be on the disk: after a power cut it is written anew, or read anew.
    """
    temporary = f"{path}.{os.getpid()}.new"
    try:
        with open(temporary, "wb") as file:
            for part in parts:
                file.write(part)
        os.replace(temporary, path)
    except OSError:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def _plain(summary: MetricSummary) -> list[Any]:
    """The summary as JSON has it, which knows no NaN."""
    return [
        _NOT_FINITE[repr(value)] if isinstance(value, float) and not math.isfinite(value) else value
        for value in summary
    ]


def _summary(values: list[Any]) -> MetricSummary:
    name, kind, last, count, minimum, maximum, source = values
    low, high = number(minimum), number(maximum)
    return MetricSummary(
        name,
        kind,
        number(last) if kind == SCALAR else last,
        count,
        math.nan if low is None else low,
        math.nan if high is None else high,
        source,
    )
