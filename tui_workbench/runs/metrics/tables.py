"""Read files with one record per line: `metrics.jsonl`, and tables of metrics that a script writes.

`metrics.jsonl` contains the values that the functions of the SDK log, one line for each call:

```
{"name":"loss","step":3,"value":0.31,"time":1700000000.123456}     a point; a string value is a text
{"step":3,"metrics":{"loss":0.31,"accuracy":0.9},"time":1700000000.123456}     points of several metrics
{"kind":"row","name":"epochs","step":null,"value":{"loss":0.31,"accuracy":0.9},"time":1700000000.123456}
{"kind":"attempt","name":"attempt","value":2,"time":1700000000.123456}     the values below are of attempt 2
```

NaN and infinities are the strings "NaN", "Infinity" and "-Infinity", so that each line is valid JSON. Invalid lines are
counted and skipped. An incomplete line, which a full disk can cause, does not affect the next line.

A table is CSV with a header, or one JSON object per line. Each numeric column is a metric. A column such as `step` or
`epoch` contains the step, and a column such as `time` contains the time. A JSON object can also contain the name and
the value of one metric: `{"name": ..., "value": ...}`. Cells without a number are skipped.
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

from tui_workbench.core.json_values import parse_json_lines
from tui_workbench.runs.metrics.number_text import cell_number
from tui_workbench.runs.metrics.tail import Opened, Reader, Tail
from tui_workbench.runs.metrics.values import FILE, IMAGE, KINDS, SCALAR, SDK, TEXT, UPLOAD, LoggedItem, number
from tui_workbench.runs.store.logged import open_logged

STEPS = ("global_step", "step", "_step", "trainer/global_step", "iteration", "iter", "epoch", "batch", "n_iter")
"""Columns with the step. In each row, the first of these columns that has a value is used. They are not metrics."""

TIMES = ("time", "timestamp", "_timestamp", "wall_time", "created", "datetime", "date")
NAMES = ("name", "metric", "key", "tag")
"""Keys with the name of a metric, in JSON objects that contain one metric each."""

EARLIEST = 1e8  # minimum of a time in seconds since the epoch; a smaller number is a duration
ATTEMPT = "attempt"  # kind of the line that a process writes before its first value, from the second attempt on
DEPTH = 3  # maximum level of nested objects; metric names are keys joined by slashes


class TableFile(Reader):
    """The metrics in a CSV or JSON Lines file."""

    source = FILE

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._is_csv = os.path.splitext(path)[1].lower() not in (".jsonl", ".ndjson", ".json")
        self._head: list[str] | None = None
        self._delimiter = ","

    @property
    def group(self) -> str:
        return self.path

    def reset(self) -> None:
        super().reset()
        self._head = None

    def parse(self, block: bytes) -> None:
        if self.tail.offset <= len(block) and b"\0" in block[:HEAD_BYTES]:
            self.columns.problem = "not UTF-8 text, and therefore not read; write the table as UTF-8"
        if self.columns.problem:
            return
        lines = block.decode("utf-8-sig" if not self._head else "utf-8", "replace").replace("\r\n", "\n").split("\n")
        if self._is_csv:
            self._take_csv(lines)
        else:
            self._take_json(lines)

    def _take_csv(self, lines: list[str]) -> None:
        lines = [line for line in lines if line.strip() and not line.startswith("#")]
        if lines and self._head is None:
            self._delimiter = max(",;\t", key=lines[0].count)
            self._head = next(self._cells(lines[:1]), [])
            if len(set(self._head)) < len(self._head) or any(cell_number(cell) is not None for cell in self._head):
                self._head = []  # the file has no header, so the numbers have no names
            lines = lines[1:]
        if not self._head:
            return
        for cells in self._cells(lines):
            if cells == self._head:
                self.columns.begin_session()  # a restarted script wrote the header again
                continue
            if any(cells[len(self._head) :]):
                # The values have no certain names, as in `5,0,31` below the header `step,loss`.
                self.columns.unreadable += 1
                continue
            numbers = (cell_number(cell, decimal_comma=self._delimiter != ",") for cell in cells)
            self._row(dict(zip(self._head, numbers, strict=False)))

    def _cells(self, lines: list[str]) -> Any:
        try:
            for cells in csv.reader(lines, delimiter=self._delimiter):
                yield [cell.strip() for cell in cells]
        except csv.Error:
            self.columns.unreadable += 1

    def _take_json(self, lines: list[str]) -> None:
        for line in lines:
            if not line.strip():
                continue
            try:
                (record,) = parse_json_lines([line.encode("utf-8", "surrogatepass")])
            except ValueError:
                record = None
            if not isinstance(record, dict):
                self.columns.unreadable += 1
                continue
            name = next((record[key] for key in NAMES if isinstance(record.get(key), str)), None)
            row: dict[str, float | None] = {}
            _flatten(record, "", row, DEPTH)
            if name is not None and row.get("value") is not None:
                row[name] = row.pop("value")
            self._row(row)

    def _row(self, row: Mapping[str, float | None]) -> None:
        lower = {name.lower(): value for name, value in row.items()}
        step = next((lower[name] for name in STEPS if lower.get(name) is not None), None)
        time = next((lower[name] for name in TIMES if (lower.get(name) or 0.0) > EARLIEST), math.nan)
        for name, value in row.items():
            if value is None or name.lower() in STEPS or name.lower() in TIMES or not name:
                continue
            self.columns.add(name, step, value, math.nan if time is None else time)


def _flatten(record: dict[str, Any], prefix: str, row: dict[str, float | None], depth: int) -> None:
    """Add the numbers of an object and its nested objects to `row` by name."""
    for key, value in record.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            if depth > 1:
                _flatten(value, f"{name}/", row, depth - 1)
        elif not isinstance(value, bool):
            row[name] = number(value)


HEAD_BYTES = 200  # number of bytes whose encoding is checked
PIECE = 1 << 20  # number of bytes that `follow` reads at once


class SdkTail(Tail):
    """An incremental reader of `metrics.jsonl`, also after it was compressed."""

    @contextlib.contextmanager
    def _open(self) -> Iterator[Opened]:
        with open_logged(os.path.dirname(self.path)) as logged:
            status = os.fstat(logged.file.fileno())
            yield Opened(logged.file, logged.size, None if logged.is_compressed else (status.st_dev, status.st_ino))


class SdkFile(Reader):
    """The metrics in `metrics.jsonl`."""

    source = SDK
    tail_type = SdkTail

    def follow(self) -> bool:
        """Read the next piece of a growing file. Return False if less than a piece is unread."""
        return self.tail.unread >= PIECE and self.read(self.tail.blocks(piece=PIECE))

    def parse(self, block: bytes) -> None:
        lines = [line for line in block.split(b"\n") if line.strip()]
        try:
            records = parse_json_lines(lines)
        except ValueError:
            for line in lines:
                self._take_line(line)
        else:
            for record, line in zip(records, lines, strict=True):
                self._add(record, len(line))

    def _take_line(self, line: bytes) -> None:
        try:
            (record,) = parse_json_lines([line])
        except ValueError:
            self.columns.unreadable += 1
            # An incomplete line has no newline, so the next record is on the same line.
            start = max(line.rfind(b'{"name":', 1), line.rfind(b'{"step":', 1))
            if start > 0:
                self._take_line(line[start:])
            return
        self._add(record, len(line))

    def _add(self, record: Any, size: int) -> None:
        if not isinstance(record, dict):
            self.columns.unreadable += 1
            return
        step, time = number(record.get("step")), number(record.get("time"))
        name, value, values = record.get("name"), record.get("value"), record.get("metrics")
        kind = record.get("kind", SCALAR)
        if isinstance(values, dict) and name is None:
            for metric, metric_value in values.items():
                self._add_value(metric, metric_value, step, time)
        elif not isinstance(name, str) or not isinstance(kind, str):
            self.columns.unreadable += 1
        elif kind == ATTEMPT:
            self._begin_attempt(value)
        elif kind == SCALAR:
            self._add_value(name, value, step, time)
        elif kind == TEXT and isinstance(value, str):
            self.columns.add_text(name, value)
        elif kind != TEXT and kind in KINDS:
            path = inside(record.get("path")) if kind in (IMAGE, UPLOAD) else ""
            item = LoggedItem(kind, name, value, step, time or 0.0, path)
            self.columns.add_item(item, size or len(json.dumps(value)))
        else:
            self.columns.unreadable += 1

    def _begin_attempt(self, attempt: object) -> None:
        """Begin the session of an attempt. Each process of the attempt writes its number."""
        last = self.columns.sessions[-1][1] if self.columns.sessions else 1
        if isinstance(attempt, int) and attempt > last:
            self.columns.begin_session(attempt=attempt)

    def _add_value(self, name: str, value: object, step: float | None, time: float | None) -> None:
        point = number(value)
        if point is not None:
            self.columns.add(name, step, point, math.nan if time is None else time)
        elif isinstance(value, str):
            self.columns.add_text(name, value)
        else:
            self.columns.unreadable += 1


def inside(path: object) -> str:
    """Return the normalized relative path, or "" if the path is absolute or leads out of its folder."""
    if not isinstance(path, str) or not path or "\0" in path or os.path.isabs(path):
        return ""
    clean = os.path.normpath(path)
    return "" if clean == ".." or clean.startswith("../") else clean
