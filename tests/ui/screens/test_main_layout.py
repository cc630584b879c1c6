"""Where the parts of the main screen stand at each size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.geometry import Region, Size

from tui_workbench.ui.screens.main_layout import PANES, View, is_wide, regions

VIEWS = st.builds(
    View,
    active=st.sampled_from(PANES),
    zoomed=st.booleans(),
    target_lines=st.integers(0, 40),
    notice_lines=st.integers(1, 9),
    has_error=st.booleans(),
    question_lines=st.integers(0, 3),
)


@given(width=st.integers(1, 300), height=st.integers(11, 120), view=VIEWS)
def test_nothing_overlaps_and_nothing_is_left_empty(width: int, height: int, view: View) -> None:
    size = Size(width, height)
    placed = list(regions(size, view).values())
    shown = [region for region in placed if region]
    for index, one in enumerate(shown):
        assert size.region.contains_region(one)
        assert not any(one.overlaps(other) for other in shown[index + 1 :])
    assert sum(region.area for region in shown) == size.area


@given(width=st.integers(100, 300), height=st.integers(22, 120), view=VIEWS)
def test_a_wide_screen_shows_every_pane_with_room_for_three_lines(width: int, height: int, view: View) -> None:
    placed = regions(Size(width, height), view._replace(zoomed=False))
    for pane in PANES:
        assert placed[pane].height >= 4
        assert placed[pane].width >= 38


@pytest.mark.parametrize("active", PANES)
def test_a_terminal_of_80_by_24_shows_one_pane_with_most_of_the_lines(active: str) -> None:
    placed = regions(Size(80, 24), View(active=active))
    assert [pane for pane in PANES if pane in placed] == [active]
    assert placed[active].width == 80
    assert placed[active].height >= 19
    assert ("latest" in placed) == (active != "log")


def test_a_zoomed_pane_has_the_whole_screen_but_for_its_first_and_last_line() -> None:
    placed = regions(Size(160, 48), View(active="log", zoomed=True))
    assert placed == {
        "header": Region(0, 0, 160, 1),
        "log": Region(0, 1, 160, 46),
        "footer": Region(0, 47, 160, 1),
    }


def test_an_error_of_the_run_bar_gets_a_line_where_there_is_little_room() -> None:
    assert regions(Size(80, 24), View(has_error=True, notice_lines=2))["run-bar"].height == 3
    assert regions(Size(80, 24), View())["run-bar"].height == 1


def test_more_targets_get_more_lines_up_to_a_quarter() -> None:
    few, many = (regions(Size(120, 36), View(target_lines=lines))["targets"].height for lines in (1, 30))
    assert few < many <= 36 // 4


@pytest.mark.parametrize(("width", "height", "wide"), [(100, 22, True), (99, 60, False), (200, 21, False)])
def test_wide_begins_where_every_pane_has_room(width: int, height: int, wide: bool) -> None:
    assert is_wide(Size(width, height)) is wide
