"""Types for logged values, and growing columns of numbers, texts and items. This module reads no files.

Columns are bounded. Values beyond the bounds are counted, so that they can be reported.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

SCALAR, TEXT, LIST, ROW, TABLE, CONFUSION, IMAGE = "scalar", "text", "list", "row", "table", "confusion", "image"
TAG, UPLOAD = "tag", "upload"
KINDS = frozenset((SCALAR, TEXT, LIST, ROW, TABLE, CONFUSION, IMAGE, TAG, UPLOAD))
"""Kinds of logged values. Tags and uploads are not metrics."""

SDK, TENSORBOARD, FILE, OUTPUT = "sdk", "tensorboard", "file", "output"
SOURCES = (SDK, TENSORBOARD, FILE, OUTPUT)
"""Sources of metrics. If several of them contain a metric of the same name, the first of these is used."""


class Series(NamedTuple):
    """The curve of a metric, in the order of logging. The arrays have the same length."""

    steps: array[float]
    values: array[float]
    times: array[float]  # seconds since the epoch; NaN if unknown


class Begin(NamedTuple):
    """The begin of a session (see `sessions`): its first point as an index, and the step from which it replaces points.

    `number` is the number of the attempt, or 0 if it is unknown.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which is not used
    floor: float = math.inf
    number: int = 0


def joined(parts: Sequence[Series]) -> Series:
    """Join the parts of a curve. A single part is returned unchanged."""
    if len(parts) == 1:
        return parts[0]
    whole = Series(array("d"), array("d"), array("d"))
    for part in parts:
        for column, more in zip(whole, part, strict=True):
            column.extend(more)
    return whole


class MetricSummary(NamedTuple):
    """The summary of a metric: its last value, the number of its values, and the smallest and largest value."""

    name: str
    kind: str  # SCALAR, TEXT, LIST, ROW, TABLE, CONFUSION or IMAGE
    last: float | str | None  # None for kinds other than SCALAR and TEXT
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not used
    minimum: float  # NaN without numbers
    maximum: float
    source: str  # SDK, TENSORBOARD, FILE or OUTPUT


class LoggedItem(NamedTuple):
    """A logged value that is not a point of a curve."""

    kind: str  # LIST, ROW, TABLE, CONFUSION, IMAGE, TAG or UPLOAD
    name: str
    value: object = None  # JSON; a LIST is a list, a ROW a dict of columns, a TABLE a dict of lists, ...
    step: float | None = None
    time: float = 0.0  # seconds since the epoch; 0.0 if unknown
    path: str = ""  # of an IMAGE or UPLOAD, relative to the run directory; "" if it is outside


NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Strings for the numbers that JSON lacks."""


def number(value: object) -> float | None:
    """Convert a JSON value to a float, or to None if it is not a number.

    Booleans and the keys of NOT_FINITE count as numbers. Integers that are too large for a float become infinities.
    """
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return NOT_FINITE.get(value) if isinstance(value, str) else None


def json_number(value: float) -> float | str:
    """Return a finite number unchanged, and another number as its key in NOT_FINITE."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


LONGEST_LINE = 2000
"""Maximum length in bytes of a line of output that is searched for metrics. A longer line is probably data, and
regular expressions could take a long time.
"""


class LineMetric(NamedTuple):
    """A metric in a line of output."""

    name: str
    value: float
    step: float | None
    refreshed: bool  # from a progress bar, which rewrites its line


def downsample(series: Series, width: int) -> Series:
    """Reduce the points of a curve for a chart of `width` columns.

    Columns are equal ranges of points. Each column keeps its first, lowest, highest and last point, and its first NaN
    if there is one, because a chart shows it as a gap.
    """
    steps, values, times = series
    count = len(values)
    if width < 1 or count <= 4 * width:
        return series
    chosen: list[int] = []
    for column in range(width):
        start, end = column * count // width, (column + 1) * count // width
        chosen += _of_column(values[start:end], start)
    return Series(
        array("d", [steps[index] for index in chosen]),
        array("d", [values[index] for index in chosen]),
        array("d", [times[index] for index in chosen]),
    )


def _of_column(part: array[float], start: int) -> list[int]:
    """Return the indices of the points that a column keeps, in order."""
    low, high = min(part), max(part)
    gap = -1
    # NaN makes min and max meaningless. A sum detects NaN faster than a loop.
    if math.isnan(sum(part)):
        gap = next((index for index, value in enumerate(part) if math.isnan(value)), -1)
        numbers = [value for value in part if value == value]
        if not numbers:
            return [start]
        low, high = min(numbers), max(numbers)
    kept = {0, len(part) - 1, part.index(low), part.index(high)}
    if gap >= 0:
        kept.add(gap)
    return [start + index for index in sorted(kept)]


MAX_NAMES = 10_000
"""Maximum number of metrics of a file. A script with numbers in metric names could create a million metrics."""

MAX_ITEMS = 10_000
MAX_ITEM_BYTES = 64 << 20
"""Maximum number of lists, tables and similar items of a file, and their maximum total size in bytes."""

MAX_SESSIONS = 1000  # maximum number of sessions of a file after the first
SHORT_CURVE = 100  # a curve with at most this number of points is never thinned
MAX_NAME = 500  # maximum number of characters of a metric name; longer names are cut


class Column:
    """A growing curve: the points of a metric in one file. Its first points can be in parts on disk."""

    def __init__(self) -> None:
        self.steps = array("d")
        self.values = array("d")
        self.times = array("d")
        self.left_out = 0  # number of points that `thin` has removed
        self.begins: list[Begin] = []  # the sessions after the first
        self._compared = 0  # number of values that `_low` and `_high` include
        self._low, self._high = math.inf, -math.inf
        self._parts: list[Callable[[], Series]] = []  # functions that read the points before those in memory
        self._part_points = 0

    @classmethod
    def after(
        cls,
        parts: Sequence[Callable[[], Series]],
        count: int,
        extremes: tuple[float, float],
        step: float,
        value: float,
        time: float,
    ) -> Column:
        """Return a curve with `count` points in `parts`, of which `extremes` are the extremes, and a last point."""
        column = cls()
        column._parts, column._part_points = list(parts), count
        column._low, column._high = extremes
        column.append(step, value, time)
        return column

    @property
    def count(self) -> int:
        """Number of points, including those in parts and removed ones."""
        return self._part_points + len(self.values) + self.left_out

    @property
    def stored(self) -> int:
        """Number of points, including those in parts, but without removed ones."""
        return self._part_points + len(self.values)

    def begins_until_now(self, sessions: Sequence[tuple[float, int]]) -> list[Begin]:
        """Return the begins of the sessions of the file (floor and number). The last ones may have no point."""
        return [*self.begins, *(Begin(self.stored, floor, attempt) for floor, attempt in sessions[len(self.begins) :])]

    def append(self, step: float | None, value: float, time: float) -> None:
        """Add a point. Without a step, the point gets the last step plus one."""
        if step is None:
            last = self.steps[-1] if self.steps else -1.0
            step = last + 1.0 if math.isfinite(last) else float(len(self.steps))
        self.steps.append(step)
        self.values.append(value)
        self.times.append(time)

    def extremes(self) -> tuple[float, float]:
        """Return the smallest and the largest number. Without numbers, these are infinity and minus infinity."""
        low, high = self.extremes_but_last()
        last = [value for value in self.values[-1:] if value == value]
        return min([low, *last]), max([high, *last])

    def extremes_but_last(self) -> tuple[float, float]:
        """Return the extremes without the last value, which can still be replaced. Compare only new values."""
        end = max(0, len(self.values) - 1)
        new = [value for value in self.values[self._compared : end] if value == value]
        self._low, self._high, self._compared = min([self._low, *new]), max([self._high, *new]), end
        return self._low, self._high

    def all_but_last(self) -> Series:
        """Return the points in memory without the last one. The step of the next point can depend on it."""
        return Series(self.steps[:-1], self.values[:-1], self.times[:-1])

    def move(self, part: Callable[[], Series]) -> None:
        """Remove the points of `all_but_last` from memory. From now on, `part` returns them."""
        self.extremes_but_last()
        self._parts.append(part)
        self._part_points += len(self.values) - 1
        self.steps, self.values, self.times, self._compared = self.steps[-1:], self.values[-1:], self.times[-1:], 0

    def thin(self) -> None:
        """Keep about half of the points: those that `downsample` keeps of every eight points."""
        whole, begins, parts = self.in_memory(), [], []
        limits = [0, *(begin.index - self._part_points for begin in self.begins), len(self.values)]
        for index, (start, end) in enumerate(pairwise(limits)):
            part = Series(*(column[start:end] for column in whole))
            parts.append(downsample(part, max(1, len(part.values) // 8)))
            if index < len(self.begins):
                size = sum(len(thinned.values) for thinned in parts)
                begins.append(self.begins[index]._replace(index=self._part_points + size))
        kept = joined(parts)
        self.left_out += len(self.values) - len(kept.values)
        self.begins = begins
        self.steps, self.values, self.times = kept
        self._compared = 0

    def series(self) -> Series:
        """Return the curve. Without parts, its arrays grow with the column. Raises OSError if a part was deleted."""
        return joined([*(part() for part in self._parts), self.in_memory()])

    def in_memory(self) -> Series:
        """Return the points that are not in parts. The arrays grow with the column."""
        return Series(self.steps, self.values, self.times)


class Columns:
    """The data read from a file so far."""

    def __init__(self) -> None:
        self.curves: dict[str, Column] = {}
        self.texts: dict[str, tuple[str, int]] = {}  # the last text, and the number of texts
        self.items: list[LoggedItem] = []
        self.points = 0
        self.damaged_at = -1  # offset from which the file cannot be read; -1 for an undamaged file
        self.problem = ""  # why the file is not read
        self.unreadable = 0  # number of lines or records that could not be parsed
        self.dropped_points = 0
        self.dropped_items = 0
        self.is_thinned = False  # True if points of curves were removed
        self.item_bytes = 0
        self.stored_items = 0  # number of items in parts
        self.sessions: list[tuple[float, int]] = []
        """The sessions after the first: the step from which points are replaced, and the number of the attempt or 0."""

    def curve(self, name: str) -> Column | None:
        """Return the column of this name; create it if necessary. Return None if there are too many columns."""
        column = self.curves.get(name)
        if column is None:
            name = name[:MAX_NAME]
            column = self.curves.get(name)
            if column is None and len(self.curves) < MAX_NAMES:
                column = self.curves[name] = Column()
        return column

    def add(self, name: str, step: float | None, value: float, time: float, *, again: bool = False) -> None:
        """Add a point of a curve. With `again`, the point replaces the last point if both have the same step."""
        curve = self.curve(name)
        if curve is None:
            self.dropped_points += 1
            return
        if len(curve.begins) < len(self.sessions):
            curve.begins = curve.begins_until_now(self.sessions)
            again = False
        if again and curve.steps and step == curve.steps[-1]:
            curve.values[-1] = value
            return
        curve.append(step, value, time)
        self.points += 1

    def begin_session(self, *, floor: float = math.inf, attempt: int = 0) -> None:
        """Begin a session, which replaces points (see `sessions`)."""
        if len(self.sessions) < MAX_SESSIONS:
            self.sessions.append((floor, attempt))

    def thin(self) -> None:
        """Apply `Column.thin` to all long curves."""
        for curve in self.curves.values():
            if len(curve.values) > SHORT_CURVE:
                curve.thin()
        self.points = sum(len(curve.values) for curve in self.curves.values())
        self.is_thinned = True

    def add_text(self, name: str, text: str) -> None:
        name = name[:MAX_NAME]
        if name in self.texts or len(self.texts) < MAX_NAMES:
            self.texts[name] = (text, self.texts.get(name, ("", 0))[1] + 1)
        else:
            self.dropped_points += 1

    def add_item(self, item: LoggedItem, size: int) -> None:
        """Add an item; `size` is its size in the file in bytes."""
        if len(self.items) >= MAX_ITEMS or self.item_bytes + size > MAX_ITEM_BYTES:
            self.dropped_items += 1
            return
        self.item_bytes += size
        self.items.append(item._replace(name=item.name[:MAX_NAME]))

    @property
    def names(self) -> list[str]:
        return [*self.curves, *(name for name in self.texts if name not in self.curves)]
