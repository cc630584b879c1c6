"""The chart widget: its drawing and its keys."""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING

import pytest
from textual.app import App, ComposeResult

from tests.ui.seen import screen_lines
from tests.ui.waiting import until
from tui_workbench.ui.charts.chart import AT_ONCE, Chart
from tui_workbench.ui.charts.chart_data import TIME, AttemptBegin, Curve
from tui_workbench.ui.charts.chart_drawing import MARKS, ROLES, Look, look_of
from tui_workbench.ui.themes.themes import load_theme

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.pilot import Pilot

BRAILLE = {chr(code) for code in range(0x2801, 0x2900)}


class ChartApp(App[None]):
    """An app with only a chart."""

    def __init__(self, look: Look | None = None) -> None:
        super().__init__()
        self.chart = Chart(look or Look("loss"))

    def compose(self) -> ComposeResult:
        yield self.chart

    def on_mount(self) -> None:
        theme = load_theme("slate")
        self.register_theme(theme)
        self.theme = theme.name
        self.set_focus(self.chart)


def curve(label: str, values: Sequence[float]) -> Curve:
    steps = array("d", range(len(values)))
    return Curve(label, steps, array("d", values), array("d", [1000 + 2 * step for step in steps]))


async def seen(pilot: Pilot[None]) -> str:
    await pilot.pause()
    return "\n".join(screen_lines(pilot.app))


async def test_chart_shows_title_last_value_and_axes() -> None:
    app = ChartApp()
    async with app.run_test(size=(60, 14)) as pilot:
        app.chart.show([curve("train.py [1]", [1.0, 0.5, 0.25])])
        lines = (await seen(pilot)).split("\n")
        assert "loss" in lines[0]
        assert "0.25" in lines[0]
        assert any(line.startswith("1.0 ┤") or "1.0 ┤" in line for line in lines)
        assert lines[-1].split() == ["step", "0", "1", "2"]
        assert any(character in BRAILLE for line in lines for character in line)


async def test_each_curve_has_a_mark_in_chart_and_legend() -> None:
    app = ChartApp()
    async with app.run_test(size=(100, 16)) as pilot:
        app.chart.show([curve(f"run {place}", [place + 1.0, place + 2.0] * 30) for place in range(4)])
        lines = (await seen(pilot)).split("\n")
        for mark in MARKS[:4]:
            assert any(mark in line for line in lines[2:]), mark  # on the curve
            assert mark in "".join(lines[:2]), mark  # in the legend


async def test_attempts_are_marked_where_they_begin() -> None:
    app = ChartApp()
    async with app.run_test(size=(60, 14)) as pilot:
        # Values at 1000, 1002, ... 1038 s: the second attempt logs its first value in the middle.
        one = curve("train.py [1]", [1.0] * 20)._replace(attempts=(AttemptBegin(2, 1019.5), AttemptBegin(3, 5000.0)))
        app.chart.show([one])
        lines = (await seen(pilot)).split("\n")
        assert lines[1].rstrip().endswith(" 2")
        assert 30 <= lines[1].rindex("2") <= 40
        assert not any(line.rstrip().endswith(" 3") for line in lines[1:-2])
        await pilot.press("x")
        assert (await seen(pilot)).split("\n")[1].rstrip().endswith(" 2")


async def test_twenty_curves_have_different_marks() -> None:
    assert len({look_of(place)[1] for place in range(20)}) == 20
    assert len({look_of(place) for place in range(len(MARKS))}) == len(MARKS)
    assert len(set(ROLES)) == len(ROLES)


async def test_full_legend_counts_the_remaining_curves() -> None:
    app = ChartApp()
    async with app.run_test(size=(80, 20)) as pilot:
        app.chart.show([curve(f"a long name of a script [{place}]", [1.0, 2.0]) for place in range(20)])
        assert " more" in await seen(pilot)


async def test_hidden_values_and_empty_charts_are_explained() -> None:
    app = ChartApp()
    async with app.run_test(size=(70, 12)) as pilot:
        app.chart.show([curve("x", [1.0, math.nan, 2.0, math.inf])])
        assert "2 hidden (not finite)" in await seen(pilot)
        app.chart.show([curve("x", [math.nan])])
        assert "No finite values." in await seen(pilot)
        app.chart.show([curve("x", [-1.0, 0.0])])
        await pilot.press("l")
        assert "All values are ≤ 0." in await seen(pilot)
        app.chart.show([])
        assert "No values logged." in await seen(pilot)


async def test_cursor_starts_at_last_point_and_moves_by_points() -> None:
    app = ChartApp()
    async with app.run_test(size=(60, 12)) as pilot:
        app.chart.show([curve("a", [10, 20, 30, 40]), curve("b", [1, 2, 3, 4])])
        await pilot.press("right")
        text = await seen(pilot)
        assert "step 3" in text
        assert "40" in text.split("\n")[0]
        await pilot.press("left")
        first = (await seen(pilot)).split("\n")[0]
        assert "step 2" in first
        assert "30" in first
        assert " 3" in first.replace("step 2", "")
        await pilot.press("left", "left", "left", "left")
        assert "step 0" in await seen(pilot)
        await pilot.press("equals_sign")
        assert "step 0" not in (await seen(pilot)).split("\n")[0]


@pytest.mark.parametrize("width", [40, 41, 42, 43])
async def test_mark_cursor_and_tick_are_in_one_column(width: int) -> None:
    app = ChartApp(Look("loss", x_name="run"))
    async with app.run_test(size=(width, 12)) as pilot:
        app.chart.show([curve("a", [5.0])])
        await pilot.press("right")
        lines = (await seen(pilot)).split("\n")
        mark = next(line.index("●") for line in lines[1:] if "●" in line)
        assert lines[-2][mark] == "┴"
        assert lines[1].rindex("│") == mark


async def test_cursor_moves_by_columns_over_dense_points() -> None:
    app = ChartApp()
    async with app.run_test(size=(60, 12)) as pilot:
        app.chart.show([curve("a", [float(place) for place in range(10_000)])])
        await pilot.press("right", "left")
        cursor = app.chart.cursor
        assert cursor is not None
        assert 50 < 9999 - cursor < 1000
        await pilot.press("shift+left")
        assert app.chart.cursor is not None
        assert cursor - app.chart.cursor > 500


async def test_zoom_keeps_the_cursor_in_view() -> None:
    app = ChartApp()
    async with app.run_test(size=(60, 12)) as pilot:
        app.chart.show([curve("a", [float(place) for place in range(101)])])
        await pilot.press("plus", "plus")
        window = app.chart.view.window
        assert window is not None
        assert window[1] - window[0] == pytest.approx(25)
        await pilot.press("right")
        assert app.chart.cursor == pytest.approx(window[1], abs=1)
        await pilot.press("minus", "minus")
        assert app.chart.view.window is None


async def test_keys_switch_to_time_log_scale_and_smoothing() -> None:
    app = ChartApp()
    async with app.run_test(size=(60, 14)) as pilot:
        app.chart.show([curve("a", [10.0**-place for place in range(6)])])
        await pilot.press("x")
        assert app.chart.view.by == TIME
        assert (await seen(pilot)).split("\n")[-1].split()[0] == "time"
        await pilot.press("l", "s")
        text = await seen(pilot)
        assert "smoothed 0.6, log" in text
        assert "1e-5" in text
        await pilot.press("s", "s", "s")
        assert "smoothed" not in await seen(pilot)


async def test_unavailable_commands_give_a_reason() -> None:
    app = ChartApp()
    async with app.run_test(size=(60, 12)) as pilot:
        assert app.chart.why_not("toggle_log") == "No curves to show."
        app.chart.show([curve("a", [1, 2])])
        await pilot.pause()
        assert app.chart.why_not("show_all") == "The whole axis is already shown."
        assert app.chart.why_not("toggle_log") == ""
        app.chart.show([curve("a", [1, 2])], Look("loss", x_name="run"))
        assert app.chart.why_not("toggle_by")


async def test_run_axis_shows_a_value_only_at_its_run() -> None:
    app = ChartApp()
    async with app.run_test(size=(60, 12)) as pilot:
        app.chart.show([Curve("loss", [1.0, 5.0], [0.25, 0.75], [1.0, 5.0])], Look("loss", joined=False, x_name="run"))
        app.chart.point_at(5.0)
        assert "run 5  ● 0.75" in await seen(pilot)
        app.chart.point_at(3.0)
        text = await seen(pilot)
        assert "run 3" in text
        assert "0.75" not in text.split("\n")[0]


async def test_latest_of_two_long_curves_is_shown() -> None:
    app = ChartApp()
    async with app.run_test(size=(60, 12)) as pilot:
        app.chart.show([curve("long", [0.0, 1.0] * AT_ONCE)])
        assert app.chart.picture is None
        app.chart.show([curve("longer", [0.0, 2.0] * AT_ONCE)])
        await until(lambda: app.chart.picture is not None)
        await pilot.pause()
        assert app.chart.picture is not None
        assert [each.curve.label for each in app.chart.picture.curves] == ["longer"]
        assert app.chart.picture.y.high == 2


@pytest.mark.parametrize("size", [(1, 1), (4, 2), (9, 3), (20, 4), (200, 60)])
async def test_chart_fits_any_size(size: tuple[int, int]) -> None:
    app = ChartApp()
    async with app.run_test(size=size) as pilot:
        app.chart.show([curve("a", [1, 2, 3]), curve("b", [3, 2, 1])])
        await pilot.press("right", "l", "x", "s")
        lines = (await seen(pilot)).split("\n")
        assert len(lines) == size[1]
        assert all(len(line) <= size[0] for line in lines)


async def test_markup_in_names_is_shown_as_text() -> None:
    app = ChartApp()
    async with app.run_test(size=(60, 12)) as pilot:
        app.chart.show([curve("[red]loss[/red]", [1.0, 2.0]), curve("b", [1.0])], Look("[b]x[/b]"))
        assert "[red]loss[/red]" in await seen(pilot)
        assert "[b]x[/b]" in await seen(pilot)


async def test_click_moves_the_cursor() -> None:
    app = ChartApp()
    async with app.run_test(size=(60, 12)) as pilot:
        app.chart.show([curve("a", [float(place) for place in range(11)])])
        await pilot.pause()
        await pilot.click(Chart, offset=(59, 5))
        assert app.chart.cursor == 10


async def test_focused_chart_is_marked() -> None:
    app = ChartApp()
    async with app.run_test(size=(60, 12)) as pilot:
        app.chart.show([curve("run 1", [1.0, 2.0])])
        await pilot.pause()
        assert screen_lines(app)[0].startswith("▌loss")
        app.screen.set_focus(None)
        await pilot.pause()
        assert screen_lines(app)[0].startswith(" loss")
