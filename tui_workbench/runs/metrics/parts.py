"""Store the curves of a large run in parts, while the run goes on.

The controller moves the points that it has read from `metrics.jsonl` to the files `metrics.cache.1`, `metrics.cache.2`
and so on (format: `curves_file`). This bounds its memory, and the screens need to parse only the lines after the last
part. A part is never changed, and can be deleted. `metrics.jsonl` stays complete.

The header of a part contains the range of its lines in `metrics.jsonl` as offsets, and a checksum of the end of this
range. The state of a part is that of the reader after these lines: the last point of each curve, and the number and
extremes of the points before it, which are in this part and the parts before it.
"""

from __future__ import annotations

import contextlib
import math
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO

from tui_workbench.core.files import write_below
from tui_workbench.runs.metrics.curves_file import FAULTS, CurvesFile, file_of_curves
from tui_workbench.runs.metrics.tables import SdkFile
from tui_workbench.runs.metrics.values import Begin, Column, Columns
from tui_workbench.runs.store.logged import open_logged
from tui_workbench.runs.store.rundir import METRICS_CACHE

PART_POINTS = 250_000  # minimum number of points of a part; parsing their lines takes about half a second

_MARK = 64  # number of bytes at the end of the range whose checksum is stored


class Parts:
    """The parts of the run at `directory`, for a reader of its `metrics.jsonl`."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._files: list[CurvesFile] = []
        self._columns: Columns | None = None  # those whose points are in the parts

    def count(self, logged: SdkFile) -> int:
        """Return the number of parts that contain points of the reader."""
        return len(self._files) if logged.columns is self._columns else 0

    def restore(self, logged: SdkFile) -> None:
        """Set a new reader to its state after the parts, unless there are no valid parts."""
        files = open_parts(self._directory)
        if files:
            with contextlib.suppress(*FAULTS):
                logged.columns = self._columns = _restored(files)
                logged.tail.offset = _end(files)
                self._files = files

    def add(self, logged: SdkFile) -> None:
        """Move the points of a reader to a new part. Raises OSError; the reader then keeps the points."""
        columns, end = logged.columns, logged.tail.offset
        if columns is not self._columns:
            self._files, self._columns = [], columns  # these are the first points, or `metrics.jsonl` was replaced
        with open_logged(self._directory) as logged_lines:
            mark = _mark(logged_lines.file, end)
        head = {"begin": _end(self._files), "end": end, "mark": mark}
        items = columns.items[columns.stored_items :]
        moved = {name: curve.all_but_last() for name, curve in columns.curves.items() if len(curve.values) > 1}
        number = len(self._files) + 1
        write_below(self._directory, f"{METRICS_CACHE}.{number}", file_of_curves(head, items, moved, _state(columns)))
        try:
            file = CurvesFile(_path(self._directory, number))
        except FAULTS as error:
            raise OSError(f"part {number} of the metrics was changed") from error
        self._files.append(file)
        for name in moved:
            columns.curves[name].move(partial(file.series, name))
        columns.points = len(columns.curves)
        columns.stored_items = len(columns.items)


def open_parts(directory: str, at_most: int | None = None) -> list[CurvesFile]:
    """Open the parts that match `metrics.jsonl`, at most this number."""
    files: list[CurvesFile] = []
    try:
        while at_most is None or len(files) < at_most:
            file = CurvesFile(_path(directory, len(files) + 1))
            if int(file.head["begin"]) != _end(files):
                break  # a part of an earlier `metrics.jsonl`
            files.append(file)
    except FAULTS:
        pass  # there are no more parts
    try:
        return files if files and _matches(directory, files[-1].head) else []
    except FAULTS:
        return []


def _restored(files: Sequence[CurvesFile]) -> Columns:
    """Return the columns after the last part. Raises one of FAULTS."""
    state, columns = files[-1].state(), Columns()
    begins = state.get("begins", {})
    for name, (count, low, high, *last) in state["curves"].items():
        parts = [partial(file.series, name) for file in files if name in file]
        columns.curves[name] = Column.after(parts, int(count), (float(low), float(high)), *map(float, last))
        columns.curves[name].begins = [Begin(int(index), number=int(number)) for index, number in begins.get(name, ())]
    columns.points = len(columns.curves)
    columns.sessions = [(math.inf, int(number)) for number in state.get("attempts", ())]
    columns.texts = {name: (str(text), int(count)) for name, (text, count) in state["texts"].items()}
    columns.items = [item for file in files for item in file.items()]
    columns.stored_items, columns.item_bytes = len(columns.items), int(state["item_bytes"])
    columns.unreadable, columns.dropped_points = int(state["unreadable"]), int(state["dropped_points"])
    columns.dropped_items = int(state["dropped_items"])
    return columns


def _end(files: Sequence[CurvesFile]) -> int:
    """Return the offset in `metrics.jsonl` after the lines of these parts."""
    return int(files[-1].head["end"]) if files else 0


def _path(directory: str, number: int) -> str:
    return f"{directory}/{METRICS_CACHE}.{number}"


def _matches(directory: str, head: Mapping[str, Any]) -> bool:
    """Return True if the lines of a part are in `metrics.jsonl`. Raises one of FAULTS."""
    end = int(head["end"])
    with open_logged(directory) as logged:
        # Reading compressed lines up to the end of the part would take seconds. No process writes other lines.
        return end <= logged.size and (logged.is_compressed or head["mark"] == _mark(logged.file, end))


def _mark(file: BinaryIO, end: int) -> int:
    """Return the checksum of the last bytes before an offset. Raises OSError."""
    size = min(_MARK, end)
    file.seek(end - size)
    return zlib.crc32(file.read(size))


def _state(columns: Columns) -> dict[str, Any]:
    """Return the state of a reader as JSON, without the points that a part contains."""
    curves = {}
    for name, curve in columns.curves.items():
        low, high = curve.extremes_but_last()
        curves[name] = [curve.count - 1, low, high, curve.steps[-1], curve.values[-1], curve.times[-1]]
    return {
        "curves": curves,
        "attempts": [number for _, number in columns.sessions],
        "begins": {
            name: [[begin.index, begin.number] for begin in curve.begins]
            for name, curve in columns.curves.items()
            if curve.begins
        },
        "texts": columns.texts,
        "unreadable": columns.unreadable,
        "dropped_points": columns.dropped_points,
        "dropped_items": columns.dropped_items,
        "item_bytes": columns.item_bytes,
    }
