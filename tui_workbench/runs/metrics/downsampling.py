"""Curves of a million points for charts of a hundred columns: the extremes stay, and so do gaps."""

from __future__ import annotations

import math
from array import array

from tui_workbench.runs.metrics.values import Series


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
