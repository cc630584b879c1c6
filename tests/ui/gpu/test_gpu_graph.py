"""Meters and graphs with a fixed scale."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui_workbench.ui.gpu.gpu_lines import graph, meter


def test_height_depends_only_on_the_value() -> None:
    assert graph([0, 50, 100], 3, 1, 100) == ["▁▄█"]
    assert graph([50], 1, 1, 100) == ["▄"]


def test_zero_is_a_line_and_nan_a_blank() -> None:
    assert graph([0, math.nan, 0], 3, 1, 100) == ["▁ ▁"]


def test_graph_of_several_rows_is_filled() -> None:
    assert graph([25, 50, 100], 3, 2, 100) == ["  █", "▄█░"]


def test_newest_values_are_at_the_right() -> None:
    assert graph([100], 4, 1, 100) == ["   █"]
    assert graph([0, 0, 0, 100], 2, 1, 100) == ["▁█"]


@pytest.mark.parametrize(
    ("share", "drawn"),
    [
        (0, "────"),
        (0.001, "╸───"),
        (0.5, "━━──"),
        (0.6, "━━╸─"),
        (1, "━━━━"),
        (7, "━━━━"),
        (math.inf, "━━━━"),
        (-1, "────"),
        (None, "    "),
        (math.nan, "    "),
    ],
)
def test_meter_shows_small_shares(share: float | None, drawn: str) -> None:
    assert "".join(meter(share, 4)) == drawn


@settings(max_examples=50)
@given(st.lists(st.floats(), max_size=40), st.integers(0, 20), st.integers(1, 4), st.floats(0, 1000))
def test_graph_has_the_requested_size(values: list[float], width: int, height: int, top: float) -> None:
    lines = graph(values, width, height, top)
    assert [len(line) for line in lines] == [width] * height
