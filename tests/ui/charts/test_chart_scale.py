"""Scales, ticks, number formats and sparklines."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui_workbench.ui.charts.chart_scale import (
    BARS,
    Scale,
    even_ticks,
    labels,
    number,
    scale_over,
    short_number,
    span_label,
    sparkline,
    ticks,
    time_ticks,
)

finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("low", "high", "most", "expected"),
    [
        (0, 1, 6, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.018, 1.02, 5, [0.2, 0.4, 0.6, 0.8, 1.0]),
        (0, 400, 9, [0, 50, 100, 150, 200, 250, 300, 350, 400]),
        (1, 60, 2, [50]),
        (-1, 1, 3, [-1, 0, 1]),
        (1e-9, 3e-9, 3, [1e-9, 2e-9, 3e-9]),
        (0, 1e300, 3, [0, 5e299, 1e300]),
    ],
)
def test_ticks_are_round_values(low: float, high: float, most: int, expected: list[float]) -> None:
    assert ticks(Scale(low, high), most) == pytest.approx(expected)


def test_log_ticks_are_powers_of_ten_or_round_values() -> None:
    assert ticks(Scale(0.001, 1000, log=True), 7) == pytest.approx([10.0**power for power in range(-3, 4)])
    assert ticks(Scale(0.001, 1000, log=True), 4) == pytest.approx([0.001, 0.1, 10, 1000])
    assert ticks(Scale(2, 9, log=True), 5) == pytest.approx([2, 5])


def test_time_ticks_are_clock_intervals() -> None:
    assert time_ticks(Scale(0, 600), 6) == [0, 120, 240, 360, 480, 600]
    assert time_ticks(Scale(0, 90), 4) == [0, 30, 60, 90]
    assert time_ticks(Scale(0, 10 * 86400), 3)[1] % 86400 == 0


@settings(max_examples=150)
@given(finite, finite, st.integers(1, 12), st.booleans())
def test_ticks_are_few_and_have_different_labels(one: float, other: float, most: int, log: bool) -> None:
    scale = scale_over([one, other], log=log)
    assert scale.low < scale.high
    found = ticks(scale, most)
    assert len(found) <= max(2, most)
    room = 1e-6
    assert all(-room <= scale.position(value) <= 1 + room for value in found)
    assert found == sorted(found)
    names = [number(value) for value in found] if log else labels(found)
    assert len(set(names)) == len(found)


@settings(max_examples=100)
@given(finite, finite, st.floats(0, 1))
def test_place_and_value_are_inverse(one: float, other: float, place: float) -> None:
    scale = scale_over([one, other])
    assert scale.position(scale.value(place)) == pytest.approx(place, abs=1e-6)


def test_labels_have_only_the_necessary_digits() -> None:
    assert labels([0.0, 0.2, 0.4]) == ["0.0", "0.2", "0.4"]
    assert labels([0, 1000, 2000]) == ["0", "1,000", "2,000"]
    assert labels([0.97, 0.975, 0.98]) == ["0.970", "0.975", "0.980"]
    assert labels([0, 2e-6, 4e-6]) == ["0", "2e-6", "4e-6"]
    assert labels([1e9, 2e9]) == ["1e9", "2e9"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.041234567, "0.041235"),
        (12031, "12,031"),
        (0.0, "0"),
        (-0.5, "-0.5"),
        (1.25e-9, "1.25e-9"),
        (math.nan, "NaN"),
        (-math.inf, "-∞"),
        (None, ""),
        (1234.5678, "1,234.6"),
    ],
)
def test_number_is_rounded_to_five_digits(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "0.25 s"), (45, "45 s"), (130, "2:10"), (3723, "1:02:03"), (183600, "2 d 3 h"), (-5, "-5 s")],
)
def test_span_label(seconds: float, text: str) -> None:
    assert span_label(seconds) == text


def test_single_value_is_in_the_middle_of_its_scale() -> None:
    assert scale_over([3.0]).position(3.0) == pytest.approx(0.5)
    assert scale_over([3.0], log=True).position(3.0) == pytest.approx(0.5)
    assert scale_over([]) == Scale(0, 1)


@pytest.mark.parametrize(
    "value", [0.5, 12345.678, 123456.789, -0.000123456, 12345678.0, -1.23456e-10, 987654321.0, math.nan, -math.inf]
)
def test_short_number_fits_its_cells(value: float) -> None:
    assert 0 < len(short_number(value, 9)) <= 9


@settings(max_examples=200)
@given(low=st.floats(-1e6, 1e6), span=st.floats(1e-3, 1e6), rows=st.integers(4, 60), durations=st.booleans())
def test_even_ticks_are_the_same_number_of_rows_apart(low: float, span: float, rows: int, durations: bool) -> None:
    most = max(2, min(8, (rows + 1) // 2))
    scale, values = even_ticks(Scale(low, low + span), rows, most, 4, durations=durations)
    room = span * 1e-6 + abs(low) * 1e-12
    assert scale.low <= low + room
    assert scale.high >= low + span - room
    at = [round((1 - scale.position(value)) * (rows * 4 - 1)) // 4 for value in values]
    assert len({before - after for before, after in pairwise(at)}) <= 1
    assert len(values) <= most + 1


def test_sparkline_uses_all_bars() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8) == BARS


def test_sparkline_averages_many_values_and_pads_few() -> None:
    assert sparkline([0.0] * 50 + [1.0] * 50, 2) == "▁█"
    assert sparkline([1.0, 2.0], 4) == "▁█  "


def test_sparkline_leaves_nan_blank() -> None:
    assert sparkline([0, math.nan, 1], 3) == "▁ █"
    assert sparkline([math.nan, math.inf], 4) == "    "


@settings(max_examples=60)
@given(st.lists(st.floats(), max_size=50), st.integers(0, 12))
def test_sparkline_has_the_requested_width(values: list[float], width: int) -> None:
    assert len(sparkline(values, width)) == width
