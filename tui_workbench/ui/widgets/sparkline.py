"""A curve in one line of a table: `▁▂▃▅▇`, the highest of its values the highest bar.

The invariant: a spark has exactly the width that was asked for, whatever the values are; what is no number is a blank.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int) -> str:
    """The values, in order, in `width` cells; of many, the mean of those that share a cell."""
    if width <= 0:
        return ""
    count = len(values)
    if count > width:
        parts = [_mean(values[count * cell // width : count * (cell + 1) // width]) for cell in range(width)]
    else:
        parts = list(values)
    known = [value for value in parts if math.isfinite(value)]
    if not known:
        return " " * width
    low, high = min(known), max(known)
    return "".join(_bar(value, low, high) for value in parts).ljust(width)


def _bar(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return " "
    if low == high:
        return BARS[3]
    # Halves, because the difference of two numbers that exist need not exist.
    place = (value / 2 - low / 2) / (high / 2 - low / 2)
    return BARS[min(len(BARS) - 1, int(place * len(BARS)))]


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return sum(value / len(known) for value in known) if known else math.nan
