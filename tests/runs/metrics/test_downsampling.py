"""Downsampled curves keep all visible features."""

from __future__ import annotations

import math
from array import array

import hypothesis
import pytest
from hypothesis import strategies

from tui_workbench.runs.metrics import Series, downsample


def series(values: list[float]) -> Series:
    return Series(array("d", range(len(values))), array("d", values), array("d", [1.0]) * len(values))


def test_short_curve_is_unchanged() -> None:
    short = series([1.0, 2.0, math.nan])
    assert downsample(short, 80) is short
    assert downsample(series([]), 80).values == array("d")


def test_spike_of_one_point_in_a_million_is_kept() -> None:
    values = [0.5] * 1_000_000
    values[123_456], values[654_321] = 99.0, -99.0
    drawn = downsample(series(values), 100)
    assert len(drawn.values) <= 400
    assert drawn.values[drawn.steps.index(123_456)] == 99
    assert drawn.values[drawn.steps.index(654_321)] == -99


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_nan_and_infinities_are_kept(value: float) -> None:
    values = [float(number) for number in range(1000)]
    values[500] = value
    drawn = downsample(series(values), 10)
    assert repr(drawn.values[drawn.steps.index(500)]) == repr(value)


def test_curve_of_only_nan_is_kept() -> None:
    assert all(map(math.isnan, downsample(series([math.nan] * 1000), 10).values))


@hypothesis.given(
    strategies.lists(strategies.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=300),
    strategies.integers(1, 30),
)
@hypothesis.settings(max_examples=100)
def test_ends_and_extremes_are_kept_in_order(values: list[float], width: int) -> None:
    drawn = downsample(series(values), width)
    assert list(drawn.steps) == sorted(drawn.steps)
    assert len(drawn.values) <= max(5 * width, len(values) if len(values) <= 4 * width else 0)
    assert (drawn.steps[0], drawn.steps[-1]) == (0, len(values) - 1)
    numbers = [value for value in values if not math.isnan(value)]
    kept = [value for value in drawn.values if not math.isnan(value)]
    assert bool(kept) == bool(numbers)
    if numbers:
        assert (min(kept), max(kept)) == (min(numbers), max(numbers))
    assert any(map(math.isnan, drawn.values)) == any(map(math.isnan, values))
    for step, value in zip(drawn.steps, drawn.values, strict=True):
        assert repr(values[int(step)]) == repr(value)
