"""Sort and smooth the points of curves, and reduce them to the columns of a chart.

Minima and maxima are kept, however many points share a column. Values that cannot be drawn (NaN, infinities, zero
or less on a log scale) become gaps and are counted. The functions work on whole arrays, because a run can have a
million points; call them in a thread.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import gt
from typing import NamedTuple

from tui_workbench.core.model import Run, RunState
from tui_workbench.runs.estimates import estimate, finite
from tui_workbench.runs.families import Family
from tui_workbench.runs.metrics import RunMetrics, Series
from tui_workbench.runs.store.attempts import attempts_of
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.ui.charts.chart_scale import Scale
from tui_workbench.ui.formatting import run_title
from tui_workbench.ui.terminal.safetext import safe_text

STEP, TIME = "step", "time"
"""Meanings of the x axis: the step logged with a value, or the seconds since the first value of the curve."""

MOST_MEANS = 2_000  # maximum number of steps at which the mean of a family is calculated

SMOOTHINGS = (0.0, 0.6, 0.9, 0.98)
"""Weights of the moving average that the user can choose; 0 means no smoothing."""


class AttemptBegin(NamedTuple):
    """The number of an attempt of a run, and the time when it began, in seconds since the epoch.

    `step` is the step of its first value, or None if it must be found by the times of the values.
    """

    number: int
    time: float
    step: float | None = None


class Curve(NamedTuple):
    """A curve of a chart. `label` is safe text; the arrays have equal lengths; `times` are seconds since the epoch."""

    label: str
    steps: Sequence[float]
    values: Sequence[float]
    times: Sequence[float]
    key: str = ""  # distinguishes curves with the same label
    look: int = -1  # index of color and mark (see `look_of`); -1: the position of the curve
    attempts: Sequence[AttemptBegin] = ()  # the attempts of the run after the first
    replaced: Sequence[Series] = ()  # points that later attempts have replaced, for each attempt
    band: tuple[Sequence[float], Sequence[float]] | None = None  # the lower and the upper edge of a shaded band


class View(NamedTuple):
    """The user's settings for a chart. `window` is the visible part of the x axis; None for all of it."""

    by: str = STEP
    log: bool = False
    smoothing: float = 0.0
    window: tuple[float, float] | None = None
    shown: tuple[float, ...] = ()  # values that the y axis always includes, except on a log scale


class Bucket(NamedTuple):
    """The first, lowest, highest and last value of a curve in one column of dots."""

    column: int
    first: float
    low: float
    high: float
    last: float


Stroke = tuple[Bucket, ...]  # a part of a curve without gaps


class Points(NamedTuple):
    """The points of a curve, sorted by x."""

    curve: Curve
    xs: Sequence[float]
    ys: Sequence[float]  # the logged values
    smooth: Sequence[float]  # smoothed, or `ys` itself
    left_out: int  # number of values that cannot be drawn

    def nearest(self, x: float) -> tuple[float, float] | None:
        """Return the x and the logged value of the point nearest to x; None for a curve without points."""
        after = bisect_left(self.xs, x)
        near = range(max(0, after - 1), min(after + 1, len(self.xs)))
        best = min(near, key=lambda index: abs(self.xs[index] - x), default=None)
        return None if best is None else (self.xs[best], self.ys[best])

    def between(self, x: float) -> float | None:
        """Return the smoothed value at x, interpolated linearly between points; None outside their range."""
        after = bisect_left(self.xs, x)
        if after == len(self.xs) or (after == 0 and self.xs[0] != x):
            return None
        if self.xs[after] == x:
            return self.smooth[after]
        left, right = self.xs[after - 1], self.xs[after]
        return self.smooth[after - 1] + (self.smooth[after] - self.smooth[after - 1]) * (x - left) / (right - left)


def attempt_begins(curve: Curve, view: View) -> list[tuple[int, float]]:
    """Return the number of each attempt after the first, and the x value at which the attempt begins.

    Attempts that began after the last value, or whose values have no times, are left out.
    """
    begins = []
    for number, begin, step in curve.attempts:
        if view.by == STEP and step is not None:
            begins.append((number, step))
            continue
        if not curve.times or math.isnan(curve.times[0]) or math.isnan(curve.times[-1]):
            continue
        first = bisect_left(curve.times, begin)  # times ascend, because points are in the order of logging
        if first < len(curve.times):
            begins.append((number, begin - curve.times[0] if view.by == TIME else curve.steps[first]))
    return begins


def replaced_points(curve: Curve, view: View) -> list[Points]:
    """Return the points that later attempts have replaced, on the x axis of the curve, and without smoothing."""
    replaced = []
    for series in curve.replaced:
        points = points_of(Curve("", *series), view._replace(smoothing=0.0))
        if view.by == TIME and points.xs and curve.times:
            shift = min(time for time in series.times if math.isfinite(time)) - curve.times[0]
            points = points._replace(xs=[x + shift for x in points.xs])
        if points.xs and math.isfinite(points.xs[0]):
            replaced.append(points)
    return replaced


def points_of(curve: Curve, view: View) -> Points:
    """Return the points of a curve, sorted by x and smoothed. Points with the same x keep their order."""
    xs, ys = curve.times if view.by == TIME else curve.steps, curve.values
    left_out = 0
    if not math.isfinite(sum(xs)):
        kept = [(x, y) for x, y in zip(xs, ys, strict=True) if math.isfinite(x)]
        left_out = len(xs) - len(kept)
        xs, ys = array("d", (x for x, _ in kept)), array("d", (y for _, y in kept))
    if any(map(gt, xs, islice(xs, 1, None))):  # sorting needs ten times the memory, and most curves are sorted
        order = sorted(range(len(xs)), key=xs.__getitem__)
        xs, ys = array("d", map(xs.__getitem__, order)), array("d", map(ys.__getitem__, order))
    if view.by == TIME and xs:
        begin = xs[0]
        xs = array("d", [x - begin for x in xs])
    if view.log:
        left_out += sum(1 for y in ys if not 0 < y < math.inf)
    elif not math.isfinite(sum(ys)):
        left_out += sum(1 for y in ys if not math.isfinite(y))
    return Points(curve, xs, ys, smoothed(ys, view.smoothing), left_out)


def smoothed(values: Sequence[float], weight: float) -> Sequence[float]:
    """Return an exponential moving average with bias correction.

    Values that are not finite are kept, and are not part of the average.
    """
    if not weight:
        return values
    averages = array("d")
    total = share = 0.0
    for value in values:
        if math.isfinite(value):
            total, share = total * weight + (1 - weight) * value, share * weight + 1 - weight
            value = total / share
        averages.append(value)
    return averages


def extremes(points: Points, x: Scale, *, log: bool) -> Iterator[float]:
    """Yield the lowest and the highest drawn value, first of the logged values, then of the smoothed values if any.

    Yield nothing if no value is drawn.
    """
    first, last = max(0, bisect_left(points.xs, x.low) - 1), bisect_right(points.xs, x.high) + 1
    for ys in (points.ys, points.smooth) if points.smooth is not points.ys else (points.ys,):
        if bucket := _bucket(0, ys[first:last], log=log):
            yield from (bucket.low, bucket.high)


def strokes(xs: Sequence[float], ys: Sequence[float], x: Scale, columns: int, *, log: bool) -> tuple[Stroke, ...]:
    """Return the buckets of all columns with points, split at columns whose values cannot be drawn.

    The nearest points outside the window are included, so that lines reach the edges of the chart.
    """
    parts: list[list[Bucket]] = [[]]
    for column, start, end in _slices(xs, x, columns):
        bucket = _bucket(column, ys[start:end], log=log)
        if bucket is not None:
            parts[-1].append(bucket)
        elif parts[-1]:
            parts.append([])
    return tuple(tuple(stroke) for stroke in parts if stroke)


def _slices(xs: Sequence[float], x: Scale, columns: int) -> Iterator[tuple[int, int, int]]:
    """Yield the number of each column that has points, and the start and end index of its points.

    The nearest points outside the window are in the columns -1 and `columns`.
    """
    start, last = bisect_left(xs, x.low), bisect_right(xs, x.high)
    if start:
        yield -1, start - 1, start
    for column in range(columns):
        border = x.value((column + 0.5) / (columns - 1))
        end = bisect_left(xs, border, start, last) if column < columns - 1 else last
        if end > start:
            yield column, start, end
        start = end
    if last < len(xs):
        yield columns, last, last + 1


def _bucket(column: int, values: Sequence[float], *, log: bool) -> Bucket | None:
    # One value that is not finite makes the sum not finite, so most columns need no check of each value.
    if not math.isfinite(sum(values)):
        values = [value for value in values if math.isfinite(value)]
    if log and values and min(values) <= 0:
        values = [value for value in values if value > 0]
    return Bucket(column, values[0], min(values), max(values), values[-1]) if values else None


# --- Curves of runs


def read_metrics(run: Run) -> RunMetrics:
    """Read all metrics of a run. Blocks."""
    metrics = RunMetrics(run.directory)
    metrics.refresh()
    return metrics


def read_attempts(directory: str) -> tuple[AttemptBegin, ...]:
    """Return the number and the start time of each attempt of a run after the first. Blocks.

    Attempts that never started are left out.
    """
    later = attempts_of(RunDirectory(directory))[1:]
    return tuple(AttemptBegin(attempt.number, attempt.start) for attempt in later if attempt.start)


def run_curves(runs: Iterable[tuple[Run, int]], name: str) -> list[Curve]:
    """Read the curve of a metric from each run that logged it. Blocks.

    Each run is paired with the index of its color and mark (see `look_of`).
    """
    curves = []
    for run, look in runs:
        metrics = read_metrics(run)
        series = metrics.series(name)
        if series.values:
            label = safe_text(run_title(run)[:60])
            curves.append(Curve(label, *series, key=run.run_id, look=look, replaced=metrics.replaced(name)))
    return curves


def family_curve(family: Family, name: str, look: int) -> Curve:
    """Return the mean of a metric over the completed runs of a family, with a band of ± the standard deviation. Blocks.

    Between two steps of a run, its values are interpolated linearly. Before the first and after the last step of a
    run, the mean is that of the other runs. Where fewer than two runs have a value, the band is omitted.
    """
    completed = [run for run in family.runs if run.state == RunState.COMPLETED]
    runs = [points for run in completed if (points := _finite_points(run, name)).xs]
    steps = sorted({step for points in runs for step in points.xs})
    steps = [*steps[: -1 : max(1, len(steps) // MOST_MEANS)], *steps[-1:]]
    values = [[value for points in runs if (value := points.between(step)) is not None] for step in steps]
    estimates = [result for at_step in values if (result := estimate(at_step)) is not None]
    means = [result.mean for result in estimates]
    spread = [math.nan if result.sd is None else result.sd for result in estimates]
    low = [mean - sd for mean, sd in zip(means, spread, strict=True)]
    high = [mean + sd for mean, sd in zip(means, spread, strict=True)]
    unknown = [math.nan] * len(steps)
    label = safe_text(f"{family.name} (n = {len(runs)})")
    return Curve(label, steps, means, unknown, family.name, look, band=(low, high))


def _finite_points(run: Run, name: str) -> Points:
    """Return the points of a metric of a run, without smoothing. The last finite value of each step counts."""
    series = read_metrics(run).series(name)
    pairs = zip(series.steps, series.values, strict=True)
    values = {step: value for step, value in pairs if math.isfinite(step) and finite(value) is not None}
    return points_of(Curve("", array("d", values), array("d", values.values()), ()), View())
