"""Scales of charts, tick values, and the formatting of numbers. Different ticks have different labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

ALIKE = 1e-11  # relative difference below which two values count as equal
SMALLEST, LARGEST = 1e-290, 1.7e308

_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
"""Usual intervals between two ticks of a time axis, in seconds."""


class Scale(NamedTuple):
    """The range of an axis. A logarithmic scale needs ends above zero."""

    low: float
    high: float
    log: bool = False

    def position(self, value: float) -> float:
        """Return the relative position of a finite value: 0 at the low end, 1 at the high end."""
        if self.log:
            return (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        # Use halves, because the difference of two large numbers can overflow.
        return (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)

    def value(self, position: float) -> float:
        """Return the value at a relative position. This is the inverse of `position`."""
        if self.log:
            return float(self.low * (self.high / self.low) ** position)
        return self.low * (1 - position) + self.high * position


def scale_over(values: Iterable[float], *, log: bool = False) -> Scale:
    """Return a scale that includes these finite values. If `log`, values of zero or less are ignored.

    Without values, the scale is 0 to 1, or 0.1 to 1 if `log`.
    """
    drawn = [value for value in values if not log or value > 0]
    if not drawn:
        return Scale(0.1, 1.0, log=True) if log else Scale(0.0, 1.0)
    low, high = min(drawn), max(drawn)
    # Values that are closer would have equal labels.
    if high - low > ALIKE * max(abs(low), abs(high)) and high - low > SMALLEST:
        return Scale(max(low, SMALLEST), high, log) if log else Scale(low, high)
    if log:
        low = min(max(low, SMALLEST), LARGEST / 4)
        return Scale(low / 2, low * 2, log=True)
    room = max(abs(low), abs(high)) * 0.1
    room = room if room > SMALLEST else 1.0
    return Scale(max(low - room, -LARGEST), min(high + room, LARGEST))


def ticks(scale: Scale, most: int) -> list[float]:
    """Return at most `most` round values within the scale, ascending; its ends if its span is 0 or infinite."""
    if scale.log:
        return _log_ticks(scale, most)
    span = scale.high - scale.low
    step = nice_step(scale.low, scale.high, most) if 0 < span < math.inf and most > 0 else math.inf
    if step == math.inf:
        return [scale.low, scale.high][: max(0, most)]
    return _multiples(scale.low, scale.high, step)


def even_ticks(scale: Scale, rows: int, most: int, dots: int, *, durations: bool = False) -> tuple[Scale, list[float]]:
    """Extend the scale so that round values are the same number of rows apart, and return it with these values.

    `dots` is the number of dots per row. If there is no such scale, return the scale unchanged and no values.
    """
    span = scale.high - scale.low
    if scale.log or rows < 4 or not SMALLEST < span < LARGEST:
        return scale, []
    by_time = durations and span >= most
    candidates: list[tuple[float, float, float, int]] = []
    for every in range(max(2, -(-rows // most)), rows // 2 + 1):
        for step in _TIME_STEPS if by_time else _nice_steps(span * every / rows):
            # A value is in the middle of its row; the ends of the scale are in the middle of a dot.
            unit, middle = step / every, (dots / 2 - 0.5) / dots
            first = math.ceil(scale.low / step - 1e-9) * step
            below = max(0, math.ceil((first - scale.low) / unit - middle - 1e-9))
            low = first - (below + middle) * unit
            if low + (rows - 1 / dots) * unit >= scale.high - span * 1e-9:
                candidates.append((unit, step, low, below))
                break
    if not candidates:
        return scale, []
    unit, step, low, _ = min(candidates)
    even = Scale(low, max(scale.high, low + (rows - 1 / dots) * unit))
    return even, _multiples(even.low, even.high, step)


def _nice_steps(least: float) -> list[float]:
    power = _ten(math.floor(math.log10(least)))
    return [step for step in (power * factor for factor in (1, 2, 5, 10, 20, 50)) if step >= least * (1 - 1e-9)]


def nice_step(low: float, high: float, most: int) -> float:
    """Return the smallest round step with at most `most` multiples from `low` to `high`.

    A round step is 1, 2 or 5 times a power of ten.
    """
    steps = _nice_steps((high - low) / (most + 1))
    return next((step for step in steps if _count(low, high, step) <= most), steps[-1])


def _count(low: float, high: float, step: float) -> int:
    return math.floor(high / step + 1e-9) - math.ceil(low / step - 1e-9) + 1


def _multiples(low: float, high: float, step: float) -> list[float]:
    first = math.ceil(low / step - 1e-9)
    # Round to the digits of the step, so that 3 x 0.1 is 0.3.
    digits = max(0, min(300, 1 - math.floor(math.log10(step))))
    return [round(factor * step, digits) + 0.0 for factor in range(first, first + _count(low, high, step))]


def time_ticks(scale: Scale, most: int) -> list[float]:
    """Return at most `most` round durations, in seconds, within the scale."""
    span = scale.high - scale.low
    if span < _TIME_STEPS[0] * most:
        return ticks(scale, most)
    fitting = (step for step in _TIME_STEPS if _count(scale.low, scale.high, step) <= most)
    step = next(fitting, 0) or nice_step(scale.low / 86400, scale.high / 86400, most) * 86400
    return _multiples(scale.low, scale.high, step)


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
    # With fewer than two powers of ten in the scale, other round numbers are used, too.
    round_values = (factor * _ten(power) for power in range(first - 1, last + 2) for factor in (1, 2, 5))
    room = 1e-9
    low, high = scale.low * (1 - room), min(scale.high * (1 + room), LARGEST)
    inside = [value for value in round_values if low <= value <= high]
    return inside[:: -(-len(inside) // most)] if inside else ticks(Scale(scale.low, scale.high), most)


def labels(values: Sequence[float]) -> list[str]:
    """Format values with the same number of digits, enough to distinguish neighbors."""
    if not values:
        return []
    largest = max(abs(value) for value in values)
    gap = min((abs(b - a) for a, b in pairwise(values) if a != b), default=largest or 1.0)
    if largest >= 1e6 or 0 < largest < 1e-3 or (0 < gap < 1e-5 and largest < 1):
        digits = max(0, _magnitude(largest) - _magnitude(gap))
        return [_scientific(value, min(digits, 12)) for value in values]
    for decimals in range(max(0, min(12, -_magnitude(gap))), 13):
        texts = [f"{value:,.{decimals}f}" for value in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts


def _magnitude(value: float) -> int:
    return math.floor(math.log10(value) + 1e-9) if 0 < value < math.inf else 0


def _scientific(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    mantissa, _, exponent = f"{value:.{digits}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent)}"


def number(value: float | None, digits: int = 5) -> str:
    """Format a value for a table: `0.0412`, `12,031`, `1.2e-9`, `NaN`, `-∞`; empty for None."""
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


def short_number(value: float, cells: int) -> str:
    """Format a value with as many digits as fit into `cells`, which must be at least 9."""
    texts = [number(value, digits) for digits in (5, 4, 3)]
    if math.isfinite(value):
        texts += [_scientific(value, digits) for digits in (3, 2, 1, 0)]
    return next((text for text in texts if len(text) <= cells), texts[-1])


def span_label(seconds: float) -> str:
    """Format a duration: `0.2 s`, `45 s`, `2:10`, `1:02:03`, `2 d 3 h`."""
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    if seconds < 60:
        return f"{sign}{number(round(seconds, 3))} s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours >= 48:
        return f"{sign}{hours // 24:,} d {hours % 24} h"
    return f"{sign}{hours}:{minute:02}:{second:02}" if hours else f"{sign}{minute}:{second:02}"


# --- Sparklines

BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int) -> str:
    """Draw values as bars in `width` cells. Values that share a cell are averaged; NaN and infinities stay blank."""
    if len(values) > width:
        ends = [len(values) * cell // max(1, width) for cell in range(width + 1)]
        values = [_mean(values[start:end]) for start, end in pairwise(ends)]
    finite = [value for value in values if math.isfinite(value)]
    scale = Scale(min(finite, default=0.0), max(finite, default=0.0))
    return "".join(_bar(value, scale) for value in values).ljust(width)


def _bar(value: float, scale: Scale) -> str:
    if not math.isfinite(value):
        return " "
    # Halves are compared, because `position` divides by the difference of the halves, which can be 0.
    is_flat = scale.low / 2 == scale.high / 2
    return BARS[3] if is_flat else BARS[min(len(BARS) - 1, int(scale.position(value) * len(BARS)))]


def _mean(values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return sum(value / len(finite) for value in finite) if finite else math.nan
