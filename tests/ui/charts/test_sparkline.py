"""Sparklines."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from tui_workbench.ui.charts.chart_scale import BARS, sparkline


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
