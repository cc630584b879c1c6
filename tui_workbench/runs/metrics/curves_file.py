"""Files of curves as binary numbers, of which a curve is read without the others.

Format: MAGIC, length of the header (8 bytes, little-endian), header (JSON), items (JSON), state (JSON), and numbers
(doubles). The header contains the number of bytes of the items and of the state, the number and byte order of the
doubles, and for each curve its number of points, and the indices of its first step, value and time in the numbers.
Equal columns are stored once: metrics that a script logs together have the same steps, and often the same times.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from tui_workbench.core.files import LARGEST, open_regular
from tui_workbench.core.json_values import check_type, parse_json
from tui_workbench.runs.metrics.values import LoggedItem, Series

MAGIC = b"workbench metrics 5\n"
LONGEST_CURVE = 4 << 20  # maximum number of points of a curve

FAULTS = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)
"""Errors that a missing, damaged or hostile file causes."""

_NUMBER_BYTES = 8


class CurvesFile:
    """The curves in the file at `path`, and its header."""

    def __init__(self, path: str) -> None:
        """Read and check the header. Raises one of FAULTS."""
        self._path = path
        with open_regular(path) as file:
            size = int.from_bytes(file.read(8), "little") if file.read(len(MAGIC)) == MAGIC else LARGEST + 1
            if size > LARGEST:
                raise ValueError("not a file of curves")
            self.head: dict[str, Any] = parse_json(file.read(size))
            self._items_size, self._state_size = int(self.head["items"]), int(self.head["state"])
            self._items_at = file.tell()
            self._state_at = self._items_at + self._items_size
            self._numbers_at = self._state_at + self._state_size
            self._swapped = self.head["order"] != sys.byteorder
            numbers = int(self.head["numbers"])
            if os.fstat(file.fileno()).st_size != self._numbers_at + numbers * _NUMBER_BYTES:
                raise ValueError("incomplete")
        if not (0 <= self._items_size <= LARGEST and 0 <= self._state_size <= LARGEST):
            raise ValueError(f"{self._items_size} bytes of items, {self._state_size} bytes of state")
        self._starts: dict[str, tuple[int, list[int]]] = {}  # number of points, and indices of the columns
        for name, (count, *starts) in self.head.pop("curves").items():
            if not 0 <= count <= LONGEST_CURVE or len(starts) != len(Series._fields):
                raise ValueError(f"{count} points in {len(starts)} columns")
            if not 0 <= min(starts) <= max(starts) <= numbers - count:
                raise ValueError(f"columns at {starts}")
            self._starts[name] = (int(count), [int(start) for start in starts])

    def __contains__(self, name: str) -> bool:
        return name in self._starts

    def series(self, name: str) -> Series:
        """Read a curve. Raises OSError if the file was deleted or changed."""
        count, starts = self._starts[name]
        columns = []
        with open_regular(self._path) as file:
            for start in starts:
                file.seek(self._numbers_at + start * _NUMBER_BYTES)
                data = file.read(count * _NUMBER_BYTES)
                if len(data) < count * _NUMBER_BYTES:
                    raise OSError(f"{self._path} is incomplete")
                columns.append(array("d", data))
        if self._swapped:
            for column in columns:
                column.byteswap()
        return Series(*columns)

    def items(self) -> list[LoggedItem]:
        """Read the items. Return none if the file was deleted or is damaged."""
        with contextlib.suppress(*FAULTS):
            items = self._json(self._items_at, self._items_size)
            return list(check_type(tuple[LoggedItem, ...], items, ""))
        return []

    def state(self) -> Any:
        """Read the state, which is any JSON value. Raises one of FAULTS."""
        return self._json(self._state_at, self._state_size)

    def _json(self, start: int, size: int) -> Any:
        with open_regular(self._path) as file:
            file.seek(start)
            return parse_json(file.read(size))


def file_of_curves(
    head: Mapping[str, object], items: Sequence[LoggedItem], series: Mapping[str, Series], state: object = None
) -> list[bytes | array[float]]:
    """Return the parts of a file, in order. `head` contains the values to add to the header."""
    item_data, state_data = _encoded([item._asdict() for item in items]), _encoded(state)
    columns: list[array[float]] = []
    starts: dict[bytes, int] = {}  # index of each column in the numbers, by the hash of the column
    curves: dict[str, list[int]] = {}
    numbers = 0
    for name, curve in series.items():
        curves[name] = [len(curve.values)]
        for column in curve:
            start = starts.setdefault(hashlib.sha256(column).digest(), numbers)
            if start == numbers:
                columns.append(column)
                numbers += len(column)
            curves[name].append(start)
    sizes = {"items": len(item_data), "state": len(state_data), "numbers": numbers}
    data = _encoded({**head, **sizes, "order": sys.byteorder, "curves": curves})
    return [MAGIC + len(data).to_bytes(8, "little") + data, item_data, state_data, *columns]


def _encoded(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
