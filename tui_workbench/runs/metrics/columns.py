"""What one file has told: the curves as columns of numbers, texts, and items. Bounded, whatever the file holds.

What goes beyond the bounds is counted and told, never silently dropped.
"""

from __future__ import annotations

import math
from array import array

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.metrics.values import Series

if TYPE_CHECKING:
    from tui_workbench.runs.metrics.values import LoggedItem

MAX_NAMES = 10_000
"""Metrics of one file. A script that puts a number into the name of a metric makes a million of them."""

MAX_ITEMS = 10_000
MAX_ITEM_BYTES = 64 << 20
"""Lists, tables and the like of one file, and what they may take together as they stand in it."""

MAX_NAME = 500
"""Characters of a metric's name that are kept."""


class Column:
    """One curve as it grows, with its extremes known without another look at it."""

    __slots__ = ("_seen", "maximum", "minimum", "steps", "times", "values")

    def __init__(self) -> None:
        self.steps = array("d")
        self.values = array("d")
        self.times = array("d")
        self.minimum = math.nan
        self.maximum = math.nan
        self._seen = 0

    @property
    def next_step(self) -> float:
        """The step of a point that names none: one more than the one before."""
        if not self.steps:
            return 0.0
        last = self.steps[-1]
        return last + 1.0 if math.isfinite(last) else float(len(self.steps))

    def append(self, step: float | None, value: float, time: float) -> None:
        """Add a point."""
        self.steps.append(self.next_step if step is None else step)
        self.values.append(value)
        self.times.append(time)

    def replace_last(self, value: float) -> None:
        """Give the last point another value."""
        self.values[-1] = value
        self._seen, self.minimum, self.maximum = 0, math.nan, math.nan

    def extend(self, steps: array[float], values: array[float], times: array[float]) -> None:
        """Add points whose steps are known."""
        self.steps.extend(steps)
        self.values.extend(values)
        self.times.extend(times)

    def series(self) -> Series:
        """The curve as it is now; it does not grow any more."""
        return Series(self.steps[:], self.values[:], self.times[:])

    def measure(self) -> None:
        """Bring the extremes up to date; NaN is none."""
        if self._seen == len(self.values):
            return
        numbers = [value for value in self.values[self._seen :] if value == value]
        self._seen = len(self.values)
        if numbers:
            low, high = min(numbers), max(numbers)
            self.minimum = low if math.isnan(self.minimum) else min(low, self.minimum)
            self.maximum = high if math.isnan(self.maximum) else max(high, self.maximum)


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
            curve.replace_last(value)
            return
        curve.append(step, value, time)
        self.points += 1

    def next_steps(self, name: str, count: int) -> array[float]:
        """The steps of points that name none."""
        curve = self.curves.get(name)
        first = 0.0 if curve is None else curve.next_step
        return array("d", [first + number for number in range(count)])

    def add_many(self, name: str, steps: array[float], values: array[float], times: array[float]) -> None:
        """Add points of a curve whose steps are known."""
        curve = self.curve(name)
        if curve is None:
            self.beyond += len(values)
            return
        curve.extend(steps, values, times)
        self.points += len(values)

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
