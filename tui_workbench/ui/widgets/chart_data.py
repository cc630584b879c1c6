"""Curves made ready for a chart of some width: points in order, smoothed, and for each column what is in it.

The invariants: an extreme never gets lost, however many points share a column; what is no number (NaN, an infinity,
zero or less on a log scale) is a gap and is counted, never drawn and never passed over in silence. Everything here
works on arrays as wholes, because a run may hold a million points, and is meant to be called in a thread.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple

from tui_workbench.ui.widgets.chart_scale import Scale, scale_over

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STEP, TIME = "step", "time"
"""What the x axis shows: the number that was logged with a value, or the seconds since the curve's first value."""

SMOOTHINGS = (0.0, 0.6, 0.9, 0.98)
"""The weights of what came before among which a person chooses; 0 shows the values as they are."""


class Curve(NamedTuple):
    """One line of a chart. `label` is safe text; the arrays have equal lengths; `times` are seconds since the epoch."""

    label: str
    steps: Sequence[float]
    values: Sequence[float]
    times: Sequence[float]
    key: str = ""  # tells curves apart whose labels are the same
    look: int = -1  # which colour and mark; -1 for the place among the curves


class View(NamedTuple):
    """How the curves are looked at. `window` is the part of the x axis that is shown; None for all of it."""

    by: str = STEP
    log: bool = False
    smoothing: float = 0.0
    window: tuple[float, float] | None = None
    shown: tuple[float, ...] = ()  # values that the y axis shows whatever the curves are; not on a log scale


class Bucket(NamedTuple):
    """What a curve does in one column of dots: where it comes in, its extremes, and where it goes out."""

    column: int
    first: float
    low: float
    high: float
    last: float


class Prepared(NamedTuple):
    """A curve as it is drawn. `strokes` are the unbroken parts; `raw` those before smoothing, if it was smoothed."""

    curve: Curve
    xs: Sequence[float]  # ascending
    ys: Sequence[float]  # as logged, in the order of xs
    smooth: Sequence[float]  # smoothed, or ys
    strokes: tuple[tuple[Bucket, ...], ...]
    raw: tuple[tuple[Bucket, ...], ...]
    left_out: int  # values that cannot be shown


class Picture(NamedTuple):
    """Everything a chart of a width draws: curves in order, and the scales of both axes."""

    curves: tuple[Prepared, ...]
    x: Scale
    y: Scale
    view: View
    columns: int  # of dots
    whole: Scale  # the x axis when nothing is cut off

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to draw."""
        return not any(curve.strokes for curve in self.curves)


def picture(curves: Sequence[Curve], view: View, columns: int) -> Picture:
    """The curves for a chart that is `columns` dots wide. Takes a tenth of a second for a million points."""
    ordered = [_ordered(curve, view.by) for curve in curves]
    whole = _scale_of_x(ordered)
    x = _windowed(whole, view.window)
    prepared = []
    for curve, (xs, ys, dropped) in zip(curves, ordered, strict=True):
        smooth = smoothed(ys, view.smoothing)
        strokes = tuple(_strokes(xs, smooth, x, columns, log=view.log))
        raw = tuple(_strokes(xs, ys, x, columns, log=view.log)) if smooth is not ys else ()
        prepared.append(Prepared(curve, xs, ys, smooth, strokes, raw, dropped + _unfit(ys, log=view.log)))
    extremes = chain.from_iterable(
        (bucket.low, bucket.high)
        for curve in prepared
        for stroke in chain(curve.strokes, curve.raw)
        for bucket in stroke
    )
    y = scale_over(chain(extremes, () if view.log else view.shown), log=view.log)
    return Picture(tuple(prepared), x, y, view, columns, whole)


def smoothed(values: Sequence[float], weight: float) -> Sequence[float]:
    """An exponential moving average that starts at the first value; what is not finite stays and does not spread.

    The early averages are divided by the weight that they have so far, so that the first values do not weigh more.
    """
    if not weight or not values:
        return values
    rest = 1.0 - weight
    weights = accumulate(range(len(values)), lambda total, _: total * weight + rest, initial=0.0)
    next(weights)
    if math.isfinite(sum(values)):
        sums = accumulate(values, lambda total, value: total * weight + rest * value, initial=0.0)
        next(sums)
        return array("d", map(float.__truediv__, sums, weights))
    found = array("d")
    total = share = 0.0
    for value in values:
        if math.isfinite(value):
            total, share = total * weight + rest * value, share * weight + rest
        found.append(total / share if math.isfinite(value) else value)
    return found


def value_at(curve: Prepared, x: float) -> tuple[float, float] | None:
    """The point of the curve nearest to x: where it is, and its value as logged; None for a curve without points."""
    if not curve.xs:
        return None
    place = bisect_left(curve.xs, x)
    near = [index for index in (place - 1, place) if 0 <= index < len(curve.xs)]
    best = min(near, key=lambda index: abs(curve.xs[index] - x))
    return curve.xs[best], curve.ys[best]


def _ordered(curve: Curve, by: str) -> tuple[Sequence[float], Sequence[float], int]:
    """The points by ascending x, and how many have no x. Equal x keep their order, as after a restart."""
    xs, ys = curve.steps, curve.values
    dropped = 0
    if by == TIME:
        xs = curve.times
    if not math.isfinite(sum(xs)):
        kept = [(x, y) for x, y in zip(xs, ys, strict=True) if math.isfinite(x)]
        dropped = len(xs) - len(kept)
        xs, ys = array("d", (x for x, _ in kept)), array("d", (y for _, y in kept))
    ascending = array("d", sorted(xs))
    if ascending != xs:
        order = sorted(range(len(xs)), key=xs.__getitem__)
        xs, ys = ascending, array("d", map(ys.__getitem__, order))
    if by == TIME and xs:
        begin = xs[0]
        xs = array("d", [x - begin for x in xs])
    return xs, ys, dropped


def _scale_of_x(ordered: Sequence[tuple[Sequence[float], Sequence[float], int]]) -> Scale:
    ends = [end for xs, _, _ in ordered if xs for end in (xs[0], xs[-1])]
    return scale_over(ends)


def _windowed(whole: Scale, window: tuple[float, float] | None) -> Scale:
    return whole if window is None or window[0] >= window[1] else Scale(*window)


def _unfit(ys: Sequence[float], *, log: bool) -> int:
    if log:
        return sum(1 for y in ys if not 0 < y < math.inf)
    return 0 if math.isfinite(sum(ys)) else sum(1 for y in ys if not math.isfinite(y))


def _strokes(
    xs: Sequence[float], ys: Sequence[float], x: Scale, columns: int, *, log: bool
) -> Iterator[tuple[Bucket, ...]]:
    """The buckets of the columns that hold points, broken where a column holds nothing but gaps.

    The point before the window and the one behind it are kept, just outside, so that lines leave the chart.
    """
    stroke: list[Bucket] = []
    for column, start, end in _slices(xs, x, columns):
        bucket = _bucket(column, ys[start:end], log=log)
        if bucket is not None:
            stroke.append(bucket)
        elif stroke:
            yield tuple(stroke)
            stroke = []
    if stroke:
        yield tuple(stroke)


def _slices(xs: Sequence[float], x: Scale, columns: int) -> Iterator[tuple[int, int, int]]:
    """Column, start and end of the points in each column that holds any, from just left of the window to its right."""
    first, last = bisect_left(xs, x.low), bisect_right(xs, x.high)
    if first:
        yield -1, first - 1, first
    if last - first <= 2 * columns:
        start = first
        while start < last:
            column = _column(xs[start], x, columns)
            end = start + 1
            while end < last and _column(xs[end], x, columns) == column:
                end += 1
            yield column, start, end
            start = end
    else:
        start = first
        for column in range(columns):
            end = (
                bisect_left(xs, x.value((column + 0.5) / (columns - 1)), start, last) if column < columns - 1 else last
            )
            if end > start:
                yield column, start, end
            start = end
    if last < len(xs):
        yield columns, last, last + 1


def _column(value: float, x: Scale, columns: int) -> int:
    return min(columns - 1, max(0, round(x.place(value) * (columns - 1))))


def _bucket(column: int, values: Sequence[float], *, log: bool) -> Bucket | None:
    """What is in a column; None when nothing in it can be shown."""
    # One not finite value makes the sum not finite: this tells of most columns at once that all is well.
    if not math.isfinite(sum(values)):
        values = [value for value in values if math.isfinite(value)]
    if log and values and min(values) <= 0:
        values = [value for value in values if value > 0]
    if not values:
        return None
    return Bucket(column, values[0], min(values), max(values), values[-1])
