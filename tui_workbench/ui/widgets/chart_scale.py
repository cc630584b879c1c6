"""The scales of charts: where a value stands between two ends, which values get a tick, and how numbers are written.

The invariant: labels of ticks that differ are different texts, and never longer than a person reads at a glance.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LABEL_CELLS = 8
"""Cells that the label of a tick takes at most, as long as the numbers are anywhere near each other."""

ALIKE = 1e-11
"""Values that differ by less than this part of themselves are drawn as one."""

SMALLEST, LARGEST = 1e-290, 1.7e308

_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
"""Seconds between ticks of time that a person expects."""


class Scale(NamedTuple):
    """What an axis shows, from `low` to `high`; with `log` by orders of magnitude, and then both are above zero."""

    low: float
    high: float
    log: bool = False

    def place(self, value: float) -> float:
        """0 at the low end, 1 at the high end; beyond these outside of the axis. The value must be finite."""
        if self.log:
            return (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        # Halves, because the difference of two numbers that exist need not exist.
        return (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)

    def value(self, place: float) -> float:
        """The value at a place, the inverse of `place`."""
        if self.log:
            return float(self.low * (self.high / self.low) ** place)
        return self.low * (1 - place) + self.high * place


def scale_over(values: Iterable[float], *, log: bool = False) -> Scale:
    """A scale that shows all these finite values with a little room; from 0 to 1 when there are none."""
    known = [value for value in values if not log or value > 0]
    if not known:
        return Scale(0.1, 1.0, log=True) if log else Scale(0.0, 1.0)
    low, high = min(known), max(known)
    # Closer together they are one value, as far as a person or the digits of a label can tell.
    if high - low > ALIKE * max(abs(low), abs(high)) and high - low > SMALLEST:
        return Scale(max(low, SMALLEST), high, log) if log else Scale(low, high)
    if log:
        low = min(max(low, SMALLEST), LARGEST / 4)
        return Scale(low / 2, low * 2, log=True)
    room = max(abs(low), abs(high)) * 0.1
    room = room if room > SMALLEST else 1.0
    return Scale(max(low - room, -LARGEST), min(high + room, LARGEST))


def ticks(scale: Scale, most: int) -> list[float]:
    """At most `most` round values within the scale, ascending; at least one where one fits."""
    if scale.log:
        return _log_ticks(scale, most)
    span = scale.high - scale.low
    step = nice_step(scale.low, scale.high, most) if 0 < span < math.inf and most > 0 else math.inf
    if step == math.inf:
        return [scale.low, scale.high][: max(0, most)]
    # The product is rounded where the step ends, so that 3 x 0.1 is 0.3.
    digits = max(0, min(300, 1 - math.floor(math.log10(step))))
    return [round(number * step, digits) + 0.0 for number in _multiples(scale.low, scale.high, step)]


def nice_step(low: float, high: float, most: int) -> float:
    """The smallest of 1, 2, 5 times a power of ten with at most `most` multiples from `low` to `high`."""
    power = _ten(math.floor(math.log10((high - low) / max(1, most))))
    steps = [power * factor for factor in (0.5, 1, 2, 5, 10, 20, 50)]
    return next((step for step in steps if _count(low, high, step) <= most), steps[-1])


def _ends(low: float, high: float, step: float) -> tuple[int, int]:
    return math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)


def _count(low: float, high: float, step: float) -> int:
    first, last = _ends(low, high, step)
    return last - first + 1


def _multiples(low: float, high: float, step: float) -> range:
    first, last = _ends(low, high, step)
    return range(first, last + 1)


def time_ticks(scale: Scale, most: int) -> list[float]:
    """At most `most` round durations, in seconds, within the scale."""
    span = scale.high - scale.low
    if span < _TIME_STEPS[0] * most:
        return ticks(scale, most)
    fitting = (step for step in _TIME_STEPS if _count(scale.low, scale.high, step) <= most)
    step: float = next(fitting, 0)
    if not step:
        step = nice_step(scale.low / 86400, scale.high / 86400, most) * 86400
    return [number * step for number in _multiples(scale.low, scale.high, step)]


def _ten(power: int) -> float:
    return 10.0**power if power < 309 else math.inf


def _log_ticks(scale: Scale, most: int) -> list[float]:
    first = math.ceil(math.log10(scale.low) - 1e-9)
    last = math.floor(math.log10(scale.high) + 1e-9)
    decades = last - first + 1
    if most < 1:
        return []
    if decades >= 2:
        every = -(-decades // most)
        return [_ten(power) for power in range(first, last + 1, every)]
    # Less than two powers of ten: the round numbers in between.
    found = [
        factor * _ten(power)
        for power in range(first - 1, last + 2)
        for factor in (1, 2, 5)
        if scale.low * (1 - 1e-9) <= factor * _ten(power) <= scale.high * (1 + 1e-9)
    ]
    return found[:: -(-len(found) // most)] if found else ticks(Scale(scale.low, scale.high), most)


def labels(values: Sequence[float]) -> list[str]:
    """The values as short texts, with as many digits as it takes to tell neighbours apart, the same for all."""
    if not values:
        return []
    largest = max(abs(value) for value in values)
    gap = min((abs(b - a) for a, b in pairwise(values) if a != b), default=largest or 1.0)
    if largest >= 1e6 or 0 < largest < 1e-3 or (0 < gap < 1e-5 and largest < 1):
        digits = max(0, _magnitude(largest) - _magnitude(gap))
        return [_scientific(value, min(digits, 12)) for value in values]
    decimals = max(0, min(12, -_magnitude(gap)))
    found = [f"{value:,.{decimals}f}" for value in values]
    while len(set(found)) < len(set(values)) and decimals < 12:
        decimals += 1
        found = [f"{value:,.{decimals}f}" for value in values]
    return found


def _magnitude(value: float) -> int:
    return math.floor(math.log10(value) + 1e-9) if value > 0 else 0


def _scientific(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    mantissa, _, exponent = f"{value:.{digits}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent)}"


def number(value: float | None, digits: int = 5) -> str:
    """A value for a table or a read-out: `0.0412`, `12,031`, `1.2e-9`, `NaN`, `-∞`; empty for None."""
    if value is None:
        return ""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == int(value) and abs(value) < 1e9:
        return f"{int(value):,}"
    size = abs(value)
    if size >= 1e9 or size < 1e-4:
        return _scientific(value, digits - 2)
    decimals = max(0, digits - 1 - _magnitude(size))
    text = f"{value:,.{min(decimals, 8)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def span_label(seconds: float) -> str:
    """A time since a beginning on an axis or in a read-out: `0.2 s`, `45 s`, `2:10`, `1:02:03`, `2 d 3 h`."""
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    if seconds < 60:
        return f"{sign}{number(round(seconds, 3))} s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours >= 48:
        return f"{sign}{hours // 24:,} d {hours % 24} h"
    return f"{sign}{hours}:{minute:02}:{second:02}" if hours else f"{sign}{minute}:{second:02}"
