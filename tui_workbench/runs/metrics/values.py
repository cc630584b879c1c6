"""What a run has logged, as values, and as columns of numbers, texts and items that grow. Nothing here reads a file.

The columns are bounded, whatever the file holds. What goes beyond the bounds is counted and told, never silently
dropped.
"""

from __future__ import annotations

import math
from array import array
from typing import NamedTuple

SCALAR, TEXT, LIST, ROW, TABLE, CONFUSION, IMAGE = "scalar", "text", "list", "row", "table", "confusion", "image"
TAG, UPLOAD = "tag", "upload"
KINDS = frozenset((SCALAR, TEXT, LIST, ROW, TABLE, CONFUSION, IMAGE, TAG, UPLOAD))
"""What a logged thing can be. Tags and uploads are no metrics: they are among the items only."""

SDK, TENSORBOARD, FILE, OUTPUT = "sdk", "tensorboard", "file", "output"
SOURCES = (SDK, TENSORBOARD, FILE, OUTPUT)
"""Where a metric comes from. Of two sources that know the same name the one named first counts."""


class Series(NamedTuple):
    """The course of one metric, in the order in which it was logged; the three are equally long."""

    steps: array[float]
    values: array[float]
    times: array[float]  # seconds since the epoch; NaN where it is not known


class MetricSummary(NamedTuple):
    """What a table shows of one metric."""

    name: str
    kind: str  # SCALAR, TEXT, LIST, ROW, TABLE, CONFUSION or IMAGE
    last: float | str | None  # of what is no scalar and no text: None
    count: int  # type: ignore[assignment]  # the tuple's own method of this name is of no use here
    minimum: float  # NaN where there is no number
    maximum: float
    source: str  # SDK, TENSORBOARD, FILE or OUTPUT


class LoggedItem(NamedTuple):
    """Something logged that is no point of a curve."""

    kind: str  # LIST, ROW, TABLE, CONFUSION, IMAGE, TAG or UPLOAD
    name: str
    value: object = None  # as JSON has it; a LIST is a list, a ROW a dict of columns, a TABLE a dict of lists, ...
    step: float | None = None
    time: float = 0.0  # seconds since the epoch; 0.0 where it is not known
    path: str = ""  # IMAGE, UPLOAD: relative to the run directory; "" when it leads out of it


NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""The words for what JSON has no numbers for."""


def number(value: object) -> float | None:
    """A number of a record, which JSON may have as true, as one too large for a float, or as a word."""
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return NOT_FINITE.get(value) if isinstance(value, str) else None


def json_number(value: float) -> float | str:
    """The number as JSON has it: itself, or one of the words of NOT_FINITE."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


LONGEST_LINE = 2000
"""Bytes of a line of output: one beyond this is data, and a regular expression could take long over it."""


class Found(NamedTuple):
    """A metric in a line of output."""

    name: str
    value: float
    step: float | None
    refreshed: bool  # it is from a bar, which writes the same line again and again


def downsample(series: Series, width: int) -> Series:
    """The curve with few enough points for a chart of `width` columns.

    Columns are equal ranges of the curve's points, which for a metric logged at every step are equal ranges of steps.
    Of each column stay first, lowest, highest and last point, and one that is NaN, where there is one: it makes a gap.
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
    """The indices that stay of the points of one column, in order."""
    low, high = min(part), max(part)
    gap = -1
    # A NaN among the numbers makes comparisons mean nothing; sums show it for less than a look at each.
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
"""Metrics of one file. A script that puts a number into the name of a metric makes a million of them."""

MAX_ITEMS = 10_000
MAX_ITEM_BYTES = 64 << 20
"""Lists, tables and the like of one file, and what they may take together as they stand in it."""

SHORT_CURVE = 100
"""Points of a curve that is never thinned."""

MAX_NAME = 500
"""Characters of a metric's name that are kept."""


class Column:
    """One curve as it grows."""

    def __init__(self) -> None:
        self.steps = array("d")
        self.values = array("d")
        self.times = array("d")
        self.left_out = 0
        """Points that `thin` has removed."""

    @property
    def count(self) -> int:
        """All points that were told, with those that were removed since."""
        return len(self.values) + self.left_out

    def append(self, step: float | None, value: float, time: float) -> None:
        """Add a point; one that names no step has one more than the one before."""
        if step is None:
            last = self.steps[-1] if self.steps else -1.0
            step = last + 1.0 if math.isfinite(last) else float(len(self.steps))
        self.steps.append(step)
        self.values.append(value)
        self.times.append(time)

    def thin(self) -> None:
        """Keep at most half of the points: the extremes of every eight, and the last one."""
        kept = downsample(self.series(), max(1, len(self.values) // 8))
        self.left_out += len(self.values) - len(kept.values)
        self.steps, self.values, self.times = kept

    def series(self) -> Series:
        """The curve as it is now; it does not grow any more."""
        return Series(self.steps[:], self.values[:], self.times[:])


class Columns:
    """All that one file has told so far."""

    def __init__(self) -> None:
        self.curves: dict[str, Column] = {}
        self.texts: dict[str, tuple[str, int]] = {}  # the last text and how many there were
        self.items: list[LoggedItem] = []
        self.points = 0
        self.damaged_at = -1  # the byte behind which nothing of the file can be read
        self.unreadable = 0  # lines or records that could not be understood
        self.beyond = 0  # points whose name was one too many
        self.items_beyond = 0
        self.is_thinned = False
        """Whether curves have lost points that are no extremes."""
        self._item_bytes = 0

    def curve(self, name: str) -> Column | None:
        """The column of this name, made when there is none; None when there are too many."""
        found = self.curves.get(name)
        if found is None:
            name = name[:MAX_NAME]
            found = self.curves.get(name)
            if found is None and len(self.curves) < MAX_NAMES:
                found = self.curves[name] = Column()
        return found

    def add(self, name: str, step: float | None, value: float, time: float, *, again: bool = False) -> None:
        """Add a point of a curve; `again` tells that it takes the place of the last one if that is of the same step."""
        curve = self.curve(name)
        if curve is None:
            self.beyond += 1
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
        """Note a value that is no number."""
        name = name[:MAX_NAME]
        if name in self.texts or len(self.texts) < MAX_NAMES:
            self.texts[name] = (text, self.texts.get(name, ("", 0))[1] + 1)
        else:
            self.beyond += 1

    def add_item(self, item: LoggedItem, size: int) -> None:
        """Add what is no point of a curve; `size` is the bytes that it takes in the file."""
        if len(self.items) >= MAX_ITEMS or self._item_bytes + size > MAX_ITEM_BYTES:
            self.items_beyond += 1
            return
        self._item_bytes += size
        self.items.append(item._replace(name=item.name[:MAX_NAME]))

    @property
    def names(self) -> list[str]:
        """The names of curves and texts."""
        return [*self.curves, *(name for name in self.texts if name not in self.curves)]
