"""Tables of metrics that a script writes itself: CSV with a head line, or a JSON object a line.

Each column of numbers is a metric; `step`, `epoch` and the like tell the step, `time` and the like the time. The form
`{"name": ..., "value": ...}` is understood as well. A row without a number in a column adds nothing to it.
"""

from __future__ import annotations

import csv
import json
import math
import os

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.metrics.columns import Columns
from tui_workbench.runs.metrics.logged import number
from tui_workbench.runs.metrics.tail import Tail
from tui_workbench.runs.metrics.values import FILE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

STEPS = ("global_step", "step", "_step", "trainer/global_step", "iteration", "iter", "epoch", "batch", "n_iter")
"""Columns that tell the step; of several the one named first here does, and none of them is a metric."""

TIMES = ("time", "timestamp", "_timestamp", "wall_time", "created", "datetime", "date")
NAMES = ("name", "metric", "key", "tag")
"""Columns that hold the name of a metric, in a table with a row a value."""

EARLIEST = 1e8
"""Seconds since the epoch below which a time is a duration."""

DEPTH = 3
"""Levels of objects in objects that are names of metrics, joined by slashes."""


class Table:
    """The reader of one such file."""

    source = FILE
    always_labeled = False

    def __init__(self, path: str) -> None:
        self.path = path
        self.columns = Columns()
        self._tail = Tail(path)
        self._is_csv = os.path.splitext(path)[1].lower() not in (".jsonl", ".ndjson", ".json")
        self._head: list[str] | None = None
        self._delimiter = ","

    @property
    def unit(self) -> str:
        """Each table is one."""
        return self.path

    def move(self, path: str) -> None:
        """Go on with the same file at another path: outputs move out of the working copy when a run ends."""
        self.path = self._tail.path = path

    def refresh(self) -> bool:
        """Read what is new; True when there was something."""
        something = False
        for block in self._tail.blocks():
            if self._tail.began_anew and not something:
                self.columns, self._head = Columns(), None
            something = True
            lines = block.decode("utf-8-sig" if not self._head else "utf-8", "replace").replace("\r\n", "\n")
            (self._take_csv if self._is_csv else self._take_json)(lines.split("\n"))
        return something

    def _take_csv(self, lines: list[str]) -> None:
        lines = [line for line in lines if line.strip() and not line.startswith("#")]
        if lines and self._head is None:
            self._delimiter = max(",;\t", key=lines[0].count)
            self._head = next(self._cells(lines[:1]), [])
            if len(set(self._head)) < len(self._head) or any(_float(cell) is not None for cell in self._head):
                self._head = []  # no head: nobody knows what its numbers are
            lines = lines[1:]
        if not self._head:
            return
        for cells in self._cells(lines):
            if cells == self._head:
                continue  # it is written again by a script that was started again
            self._row(dict(zip(self._head, map(_float, cells), strict=False)))

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
                record = json.loads(line)
            except (ValueError, RecursionError):
                self.columns.unreadable += 1
                continue
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


def _float(cell: str) -> float | None:
    try:
        return float(cell) if "_" not in cell else None
    except ValueError:
        return None


def _flatten(record: dict[str, Any], prefix: str, row: dict[str, float | None], depth: int) -> None:
    """The numbers of an object and of those in it, by their names."""
    for key, value in record.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            if depth > 1:
                _flatten(value, f"{name}/", row, depth - 1)
        elif not isinstance(value, bool):
            row[name] = number(value)
