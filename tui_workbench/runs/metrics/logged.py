"""`metrics.jsonl` of a run: what its script logged by `workbench.log` and its like, a line a value.

```
{"name":"loss","step":3,"value":0.31,"time":1700000000.123456}     a point; a value that is text stands for itself
{"kind":"row","name":"epochs","step":null,"value":{"loss":0.31,"accuracy":0.9},"time":1700000000.123456}
```

NaN and the infinities are the strings "NaN", "Infinity" and "-Infinity", so that every line is JSON to everybody. Lines
of other forms are counted and passed over; one that was torn (a full disk) does not cost the one behind it.
"""

from __future__ import annotations

import json
import math
import os
import re
from array import array

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.metrics.columns import Columns
from tui_workbench.runs.metrics.tail import Tail
from tui_workbench.runs.metrics.values import IMAGE, KINDS, SCALAR, SDK, TEXT, UPLOAD, LoggedItem

if TYPE_CHECKING:
    from typing import Any

NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

_POINT = re.compile(rb'^\{"name":("[^"\\\n]*"),"step":([^,\n]+),"value":([^,\n]+),"time":([^}\n]+)\}$', re.MULTILINE)
"""A line as the SDK writes it for a point whose name needs no escapes."""


class Logged:
    """The reader of one such file."""

    source = SDK
    unit = ""
    always_labeled = False

    def __init__(self, path: str, *, at_most: int = 0) -> None:
        self.path = path
        self.columns = Columns()
        self._tail = Tail(path, at_most=at_most)

    def refresh(self) -> bool:
        """Read what is new; True when there was something."""
        something = False
        for block in self._tail.blocks():
            if self._tail.began_anew and not something:
                self.columns = Columns()
            something = True
            self._take(block)
        return something

    def _take(self, block: bytes) -> None:
        points = _POINT.findall(block)
        if len(points) == block.count(b"\n"):
            self._take_points(points)
            return
        for line in block.split(b"\n"):
            if line.strip():
                self._take_line(line)

    def _take_points(self, points: list[tuple[bytes, bytes, bytes, bytes]]) -> None:
        """Take a block of nothing but points, which is a fourth of the work of taking them one by one."""
        groups: dict[bytes, tuple[list[bytes], list[bytes], list[bytes]]] = {}
        for name, step, value, time in points:
            group = groups.get(name)
            if group is None:
                group = groups[name] = ([], [], [])
            group[0].append(step)
            group[1].append(value)
            group[2].append(time)
        for name, (steps, values, times) in groups.items():
            try:
                text = json.loads(name)
                unnamed = steps.count(b"null") == len(steps)
                places = self.columns.next_steps(text, len(steps)) if unnamed else array("d", map(float, steps))
                self.columns.add_many(text, places, array("d", map(float, values)), array("d", map(float, times)))
            except ValueError:  # some steps that were not named, a value that is no plain number, a strange name
                for step, value, time in zip(steps, values, times, strict=True):
                    self._take_line(b'{"name":%s,"step":%s,"value":%s,"time":%s}' % (name, step, value, time))

    def _take_line(self, line: bytes) -> None:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            self.columns.unreadable += 1
            # What was torn has no end of its own, so the next record stands on the same line.
            start = line.rfind(b'{"name":', 1)
            if start > 0:
                self._take_line(line[start:])
            return
        self._add(record, len(line))

    def _add(self, record: Any, size: int) -> None:
        if not isinstance(record, dict) or not isinstance(record.get("name"), str):
            self.columns.unreadable += 1
            return
        name, value, step, time = record["name"], record.get("value"), record.get("step"), record.get("time")
        kind = record.get("kind", SCALAR)
        time = number(time)
        if kind in (SCALAR, TEXT):
            point = number(value)
            if kind == SCALAR and point is not None:
                self.columns.add(name, number(step), point, math.nan if time is None else time)
            elif isinstance(value, str):
                self.columns.add_text(name, value)
            else:
                self.columns.unreadable += 1
        elif kind in KINDS:
            path = inside(record.get("path")) if kind in (IMAGE, UPLOAD) else ""
            item = LoggedItem(kind, name, value, number(step), time or 0.0, path)
            self.columns.add_item(item, size or len(json.dumps(value)))
        else:
            self.columns.unreadable += 1


def number(value: object) -> float | None:
    """A number of a record, which JSON may have as true, as one too large for a float, or as one of NOT_FINITE."""
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return NOT_FINITE.get(value) if isinstance(value, str) else None


def inside(path: object) -> str:
    """The relative path when it stays in its folder, else nothing."""
    if not isinstance(path, str) or not path or "\0" in path or os.path.isabs(path):
        return ""
    clean = os.path.normpath(path)
    return "" if clean == ".." or clean.startswith("../") else clean
