"""Meters and graphs of what a GPU does, as text on a fixed scale: what looks the same is the same, on every device.

The invariant: a graph has exactly the width and height that were asked for. What was never told is a blank; nothing at
all is a line at the foot, so that rest and ignorance look different.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FULL = 8
"""Steps of a cell."""

_STEPS = " ▁▂▃▄▅▆▇█"


def graph(values: Sequence[float], width: int, height: int, top: float) -> list[str]:
    """Lines, the highest first: each value a column, `top` and everything above it as high as the graph."""
    values = values[-width:] if width > 0 else ()
    steps = [_level(value, FULL * height, top) for value in values]
    blank = " " * (width - len(steps))
    lines = []
    for row in range(height - 1, -1, -1):
        foot = row * FULL
        lines.append(blank + "".join([_STEPS[min(FULL, max(0, step - foot))] for step in steps]))
    return lines


def _level(value: float, most: int, top: float) -> int:
    if value != value or top <= 0:  # no number
        return 0
    return max(1, round(most * min(1.0, max(0.0, value / top))))


def meter(share: float | None, width: int) -> tuple[str, str]:
    """The filled part of a bar and the rest of it, for a share of 0 to 1; a blank bar where it is not told."""
    if share is None or share != share:
        return "", " " * width
    halves = round(2 * width * min(1.0, max(0.0, share)))
    if share > 0 and not halves:
        halves = 1
    whole, half = divmod(halves, 2)
    filled = "━" * whole + "╸" * half
    return filled, "─" * (width - len(filled))
