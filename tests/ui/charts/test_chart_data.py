"""Preparing curves for a chart."""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ui.runs.past import past_run
from tui_workbench.core.model import RunState
from tui_workbench.runs.history import History
from tui_workbench.runs.metrics import Series
from tui_workbench.runs.store.rundir import ATTEMPT, RunDirectory
from tui_workbench.ui.charts.chart_data import (
    TIME,
    AttemptBegin,
    Bucket,
    Curve,
    View,
    attempt_begins,
    family_curve,
    points_of,
    read_attempts,
    replaced_points,
    smoothed,
    strokes,
)
from tui_workbench.ui.charts.chart_drawing import Look, Picture
from tui_workbench.ui.charts.chart_scale import scale_over
from tui_workbench.ui.themes.themes import load_theme, theme_names

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tui_workbench.projects.project import Project


def curve(values: Sequence[float], steps: Sequence[float] | None = None, times: Sequence[float] | None = None) -> Curve:
    count = range(len(values))
    return Curve("c", array("d", steps or count), array("d", values), array("d", times or (100.0 + i for i in count)))


def picture(curves: Sequence[Curve], view: View) -> Picture:
    return Picture(curves, view, Look(), 60, 12)


def drawn(values: Sequence[float], columns: int, view: View | None = None) -> list[tuple[Bucket, ...]]:
    """Return the strokes of a curve over its whole x axis or a window of it."""
    view = view or View()
    points = points_of(curve(values), view)
    return list(strokes(points.xs, points.smooth, scale_over(view.window or points.xs), columns, log=view.log))


def buckets(values: Sequence[float], columns: int) -> list[tuple[int, float, float]]:
    return [(bucket.column, bucket.low, bucket.high) for stroke in drawn(values, columns) for bucket in stroke]


@settings(max_examples=60)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=400), st.integers(2, 40))
def test_extremes_survive_in_shared_columns(values: list[float], columns: int) -> None:
    found = buckets(values, columns)
    assert min(low for _, low, _ in found) == min(values)
    assert max(high for *_, high in found) == max(values)
    assert [column for column, *_ in found] == sorted({column for column, *_ in found})


def test_column_covers_only_its_points() -> None:
    many = [math.sin(place / 50) for place in range(5000)]
    found = buckets(many, 100)
    assert len(found) == 100
    for column, low, high in found[5:95]:
        place = column / 99 * 4999
        around = many[max(0, int(place) - 60) : int(place) + 60]
        assert min(around) <= low <= high <= max(around)


def test_nan_is_a_counted_gap() -> None:
    values = [1, 2, math.nan, 4, 5]
    assert len(drawn(values, 50)) == 2
    assert points_of(curve(values), View()).left_out == 1


def test_nan_beside_numbers_in_a_column_makes_no_gap() -> None:
    values = [math.nan if place == 500 else float(place) for place in range(1000)]
    assert len(drawn(values, 10)) == 1


def test_infinities_are_counted_and_do_not_change_the_scale() -> None:
    shown = picture([curve([1, math.inf, 2, -math.inf])], View())
    assert shown.curves[0].left_out == 2
    assert (shown.y.low, shown.y.high) == (1, 2)


def test_log_scale_hides_and_counts_values_up_to_zero() -> None:
    shown = picture([curve([0.0, -1.0, 10.0, 100.0])], View(log=True))
    assert shown.curves[0].left_out == 2
    assert shown.y.log
    assert (shown.y.low, shown.y.high) == (10, 100)


def test_picture_without_drawable_values_is_empty() -> None:
    assert picture([curve([math.nan])], View()).is_empty
    assert picture([curve([-1.0])], View(log=True)).is_empty
    assert picture([], View()).is_empty


def test_repeated_steps_after_a_restart_keep_their_order() -> None:
    found = points_of(curve([5, 4, 3, 9], steps=[0, 1, 2, 1]), View())
    assert list(found.xs) == [0, 1, 1, 2]
    assert list(found.ys) == [5, 4, 9, 3]


def test_time_starts_at_the_first_value_of_each_curve() -> None:
    one, other = curve([1, 2], times=[1000.0, 1010.0]), curve([1, 2], times=[5000.0, 5005.0])
    shown = picture([one, other], View(by=TIME))
    assert list(shown.curves[1].xs) == [0, 5]
    assert (shown.x.low, shown.x.high) == (0, 10)


def test_attempt_begins_at_its_first_value_or_at_its_time() -> None:
    resumed = curve([1, 2, 3, 2, 1], steps=[0, 1, 2, 1, 2], times=[100, 110, 120, 200, 210])._replace(
        attempts=(AttemptBegin(2, 190.0), AttemptBegin(3, 205.0), AttemptBegin(4, 300.0))
    )
    assert attempt_begins(resumed, View()) == [(2, 1.0), (3, 2.0)]
    assert attempt_begins(resumed, View(by=TIME)) == [(2, 90.0), (3, 105.0)]


def test_attempt_of_values_without_times_begins_at_its_step() -> None:
    """Values of the output have no times."""
    printed = curve([3, 2, 1], steps=[10, 20, 30], times=[math.nan] * 3)._replace(
        attempts=(AttemptBegin(2, 190.0, 20.0), AttemptBegin(3, 205.0))
    )
    assert attempt_begins(printed, View()) == [(2, 20.0)]
    assert attempt_begins(printed, View(by=TIME)) == []


def test_replaced_points_are_on_the_axis_of_the_curve() -> None:
    old = Series(array("d", [2, 3, 4]), array("d", [9, 8, 7]), array("d", [102, 103, 104]))
    resumed = curve([3, 2, 1], steps=[1, 2, 3], times=[101, 112, 113])._replace(replaced=[old])
    assert [(list(found.xs), list(found.ys)) for found in replaced_points(resumed, View())] == [([2, 3, 4], [9, 8, 7])]
    assert [list(found.xs) for found in replaced_points(resumed, View(by=TIME))] == [[1, 2, 3]]


def test_replaced_points_are_faint_and_do_not_change_the_values_of_the_axis() -> None:
    steps = array("d", range(50, 200))
    old = Series(steps, array("d", [1e9] * 150), steps)
    resumed = curve([float(100 - step) for step in range(100)])
    found = picture([resumed._replace(replaced=[old])], View())
    assert found.y == picture([resumed], View()).y
    assert found.whole.high == 199
    palette = load_theme(theme_names()[0]).palette
    assert found.lines(palette)


def test_attempts_keep_their_numbers_if_one_never_started(tmp_path: Path) -> None:
    directory = RunDirectory(str(tmp_path))
    directory.append_event("state", state=RunState.RUNNING)
    directory.append_event(ATTEMPT, number=2, start=0, reason="exit code 1")
    directory.append_event(ATTEMPT, number=3, start=0, reason="node1 failed")
    directory.append_event("state", state=RunState.RUNNING)
    (attempt,) = read_attempts(directory.path)
    assert attempt.number == 3
    resumed = curve([1, 2], times=[attempt.time - 9, attempt.time + 1])._replace(attempts=(attempt,))
    assert attempt_begins(resumed, View()) == [(3, 1.0)]


def test_values_without_time_are_counted_on_a_time_axis() -> None:
    found = points_of(curve([1, 2, 3], times=[math.nan, 10.0, 11.0]), View(by=TIME))
    assert list(found.ys) == [2, 3]
    assert found.left_out == 1


def test_lines_continue_beyond_the_window() -> None:
    found = drawn(list(range(100)), 50, View(window=(40.0, 60.0)))
    columns = [bucket.column for stroke in found for bucket in stroke]
    assert columns[0] == -1
    assert columns[-1] == 50


@settings(max_examples=40)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=100), st.sampled_from([0.6, 0.9]))
def test_smoothing_starts_at_the_first_value(values: list[float], weight: float) -> None:
    found = smoothed(array("d", values), weight)
    assert found[0] == pytest.approx(values[0])
    room = 1e-6 * (1 + max(map(abs, values)))
    assert all(min(values) - room <= value <= max(values) + room for value in found)


def test_smoothing_keeps_gaps() -> None:
    found = smoothed(array("d", [1.0, math.nan, 1.0, math.inf, 1.0]), 0.9)
    assert [value for value in found if math.isfinite(value)] == pytest.approx([1.0, 1.0, 1.0])
    assert math.isnan(found[1])


def test_nearest_returns_the_logged_value_when_smoothed() -> None:
    assert points_of(curve([1, 5, 9]), View(smoothing=0.9)).nearest(1.2) == (1, 5)
    assert points_of(curve([]), View()).nearest(0) is None


def test_largest_floats_are_drawn() -> None:
    values = [-1.7e308, 1.7e308, 0.0]
    shown = picture([curve(values)], View())
    assert [bucket.low for stroke in drawn(values, 50) for bucket in stroke] == values
    assert shown.y.position(0.0) == pytest.approx(0.5)


def test_family_has_a_mean_with_a_band(project: Project) -> None:
    curves: Sequence[Sequence[float]] = ([1.0, 2.0, 3.0, 4.0], [3.0, math.nan, 5.0], [9.0, 9.0], [])
    for number, values in enumerate(curves, 1):
        state = RunState.FAILED if number == 3 else RunState.COMPLETED
        past_run(project, number, state=state, curves={"loss": values}, group="sweep-1", family="sweep-1.1")
    (family,) = History(project).families()
    found = family_curve(family, "loss", 0)
    assert found.label == "sweep-1.1 (n = 2)"
    assert (list(found.steps), list(found.values)) == ([0.0, 1.0, 2.0, 3.0], [2.0, 3.0, 4.0, 4.0])
    assert found.band is not None
    low, high = found.band
    sd = math.sqrt(2)
    assert (list(low[:3]), list(high[:3])) == ([2 - sd, 3 - sd, 4 - sd], [2 + sd, 3 + sd, 4 + sd])
    assert math.isnan(low[3])
    assert math.isnan(high[3])
    assert len(list(picture([found], View(log=True)).lines(load_theme(theme_names()[0]).palette, None))) == 12


def test_band_is_shaded_and_within_the_axis() -> None:
    plain = curve([1.0, 1.0, 1.0])
    shown = picture([plain._replace(band=([0.0] * 3, [2.0] * 3))], View())
    assert (shown.y.low, shown.y.high) == (0.0, 2.0)
    lines = [
        "".join(segment.text for segment in line) for line in shown.lines(load_theme(theme_names()[0]).palette, None)
    ]
    assert sum(any(0x2800 < ord(character) < 0x2900 for character in line) for line in lines) > 5
