"""Logged values, and growing columns of numbers, texts and items. Nothing here reads files.

Columns are bounded. Values beyond the bounds are counted and reported, never silently dropped.
"""

from __future__ import annotations

import math
from array import array
from typing import NamedTuple

SCALAR, TEXT, LIST, ROW, TABLE, CONFUSION, IMAGE = "scalar", "text", "list", "row", "table", "confusion", "image"
TAG, UPLOAD = "tag", "upload"
KINDS = frozenset((SCALAR, TEXT, LIST, ROW, TABLE, CONFUSION, IMAGE, TAG, UPLOAD))
"""Kinds of logged items. Tags and uploads are not metrics: they occur among the items only."""

SDK, TENSORBOARD, FILE, OUTPUT = "sdk", "tensorboard", "file", "output"
SOURCES = (SDK, TENSORBOARD, FILE, OUTPUT)
"""Sources of metrics. If two sources have a metric of the same name, the first one wins."""


class Series(NamedTuple):
    """The curve of one metric, in logging order; the three arrays are equally long."""

    steps: array[float]
    values: array[float]
    times: array[float]  # seconds since the epoch; NaN if unknown


class MetricSummary(NamedTuple):
    """One row of a table of metrics."""

    name: str
    kind: str  # SCALAR, TEXT, LIST, ROW, TABLE, CONFUSION or IMAGE
    last: float | str | None  # None unless a scalar or a text
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
    path: str = ""  # IMAGE, UPLOAD: relative to the run directory; "" if it leads out of it


NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""The strings for numbers that JSON does not have."""


def number(value: object) -> float | None:
    """Convert a JSON value to a float; None if it is not a number.

    Booleans, integers too large for a float, and the keys of NOT_FINITE count as numbers.
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
    """Return the number, or the key of NOT_FINITE for it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


LONGEST_LINE = 2000
"""Bytes of an output line. Longer lines are data, and regular expressions could take long on them."""


class Found(NamedTuple):
    """A metric in a line of output."""

    name: str
    value: float
    step: float | None
    refreshed: bool  # from a progress bar, which rewrites its line


def downsample(series: Series, width: int) -> Series:
    """Reduce a curve to few enough points for a chart of `width` columns.

    Columns are equal ranges of points. Each column keeps its first, lowest, highest and last point, and one NaN if it
    has any, which shows as a gap.
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
    # Comparisons with NaN are meaningless. A sum finds NaN faster than a look at each value.
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
"""Metrics of one file. A script that puts a number into metric names can create a million of them."""

MAX_ITEMS = 10_000
MAX_ITEM_BYTES = 64 << 20
"""Number of lists, tables and similar items of one file, and their total size in the file."""

SHORT_CURVE = 100  # a curve with this many points or fewer is never thinned
MAX_NAME = 500  # characters of a metric's name that are kept


class Column:
    """A growing curve."""

    def __init__(self) -> None:
        self.steps = array("d")
        self.values = array("d")
        self.times = array("d")
        self.left_out = 0  # points that `thin` has removed

    @property
    def count(self) -> int:
        """Number of points, including removed ones."""
        return len(self.values) + self.left_out

    def append(self, step: float | None, value: float, time: float) -> None:
        """Add a point; without a step it gets the last step plus one."""
        if step is None:
            last = self.steps[-1] if self.steps else -1.0
            step = last + 1.0 if math.isfinite(last) else float(len(self.steps))
        self.steps.append(step)
        self.values.append(value)
        self.times.append(time)

    def thin(self) -> None:
        """Keep at most half of the points: the extremes of every eight, and the last."""
        kept = downsample(self.series(), max(1, len(self.values) // 8))
        self.left_out += len(self.values) - len(kept.values)
        self.steps, self.values, self.times = kept

    def series(self) -> Series:
        """Return a copy of the curve."""
        return Series(self.steps[:], self.values[:], self.times[:])


class Columns:
    """Everything read from one file so far."""

    def __init__(self) -> None:
        self.curves: dict[str, Column] = {}
        self.texts: dict[str, tuple[str, int]] = {}  # the last text and how many there were
        self.items: list[LoggedItem] = []
        self.points = 0
        self.damaged_at = -1  # offset from which the file cannot be read
        self.unreadable = 0  # lines or records that could not be parsed
        self.dropped_points = 0
        self.dropped_items = 0
        self.is_thinned = False  # True if curves have lost points that are not extremes
        self._item_bytes = 0

    def curve(self, name: str) -> Column | None:
        """Return the column of this name, created if missing; None if there are too many."""
        found = self.curves.get(name)
        if found is None:
            name = name[:MAX_NAME]
            found = self.curves.get(name)
            if found is None and len(self.curves) < MAX_NAMES:
                found = self.curves[name] = Column()
        return found

    def add(self, name: str, step: float | None, value: float, time: float, *, again: bool = False) -> None:
        """Add a point of a curve. With `again` it replaces the last point if that has the same step."""
        curve = self.curve(name)
        if curve is None:
            self.dropped_points += 1
            return
        if again and curve.steps and step == curve.steps[-1]:
            curve.values[-1] = value
            return
        curve.append(step, value, time)
        self.points += 1

    def thin(self) -> None:
        """Halve the points of every long curve; see `Column.thin`."""
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
        if len(self.items) >= MAX_ITEMS or self._item_bytes + size > MAX_ITEM_BYTES:
            self.dropped_items += 1
            return
        self._item_bytes += size
        self.items.append(item._replace(name=item.name[:MAX_NAME]))

    @property
    def names(self) -> list[str]:
        return [*self.curves, *(name for name in self.texts if name not in self.curves)]
