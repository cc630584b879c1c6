from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.geometry import Region, Size

from tui_workbench.ui.main.main_layout import (
    LEAST_LINES,
    LEAST_LISTS,
    LEAST_MIDDLE,
    LEAST_RIGHT,
    PANES,
    RIGHT_PANES,
    Sizes,
    View,
    border_at,
    is_wide,
    moved,
    regions,
    view_of,
)
from tui_workbench.ui.session_state import Values

SIZES = st.builds(Sizes, *[st.integers(0, 1000)] * len(Sizes._fields))
BORDERS = st.sampled_from(Sizes._fields)

VIEWS = st.builds(
    View,
    active=st.sampled_from(PANES),
    zoomed=st.booleans(),
    target_lines=st.integers(0, 40),
    notice_lines=st.integers(1, 9),
    has_error=st.booleans(),
    question_lines=st.integers(0, 3),
    sizes=SIZES,
    has_right=st.booleans(),
)


@given(width=st.integers(1, 300), height=st.integers(11, 120), view=VIEWS)
def test_regions_cover_the_screen_without_overlap(width: int, height: int, view: View) -> None:
    size = Size(width, height)
    placed = list(regions(size, view).values())
    shown = [region for region in placed if region]
    for index, one in enumerate(shown):
        assert size.region.contains_region(one)
        assert not any(one.overlaps(other) for other in shown[index + 1 :])
    assert sum(region.area for region in shown) == size.area


@given(width=st.integers(100, 300), height=st.integers(22, 120), view=VIEWS)
def test_wide_screen_shows_every_pane_with_three_lines(width: int, height: int, view: View) -> None:
    placed = regions(Size(width, height), view._replace(zoomed=False))
    for pane in PANES:
        assert placed[pane].height >= 4
        assert placed[pane].width >= (LEAST_LISTS if view.sizes.lists else 38)


@given(width=st.integers(100, 300), height=st.integers(22, 120), view=VIEWS)
def test_every_pane_keeps_its_least_size(width: int, height: int, view: View) -> None:
    placed = regions(Size(width, height), view._replace(zoomed=False))
    assert placed["files"].width >= LEAST_LISTS
    assert placed["editor"].width >= LEAST_MIDDLE
    assert all(placed[pane].height >= LEAST_LINES for pane in (*PANES, *RIGHT_PANES) if pane in placed)
    assert all(placed[pane].width >= LEAST_RIGHT for pane in RIGHT_PANES if pane in placed)


@pytest.mark.parametrize(("width", "shown"), [(179, False), (180, True), (200, True)])
def test_180_columns_show_the_right_column(width: int, shown: bool) -> None:
    placed = regions(Size(width, 60), View(has_right=True))
    assert ("history" in placed, "gpus" in placed) == (shown, shown)
    if shown:
        assert placed["history"].x == placed["gpus"].x == placed["log"].right
        assert placed["gpus"].right == width


@given(height=st.integers(30, 100), view=VIEWS, border=BORDERS, cells=st.integers(-9, 9))
def test_border_moves_as_far_as_possible(height: int, view: View, border: str, cells: int) -> None:
    size, view = Size(200, height), view._replace(zoomed=False, has_right=True, question_lines=0, notice_lines=1)
    before = edges(size, view)
    after = edges(size, view._replace(sizes=moved(size, view, border, cells)))
    assert 0 <= (after[border] - before[border]) * (1 if cells >= 0 else -1) <= abs(cells)
    carried = {"right": "lists", "jobs": "targets", "targets": "jobs"}.get(border, border)
    assert {name for name in after if after[name] != before[name]} <= {border, carried}


@given(border=BORDERS)
def test_border_at_its_limit_moves_back_with_the_first_key(border: str) -> None:
    size, view = Size(200, 60), View(has_right=True)
    for _ in range(100):
        view = view._replace(sizes=moved(size, view, border, 4))
    furthest = edges(size, view)[border]
    view = view._replace(sizes=moved(size, view, border, -1))
    assert edges(size, view)[border] == furthest - 1


@given(border=BORDERS)
def test_border_is_found_where_it_is_visible(border: str) -> None:
    size, view = Size(200, 60), View(has_right=True)
    placed = regions(size, view)
    x, y = {
        "lists": (placed["editor"].x, placed["editor"].y + 3),
        "right": (placed["history"].x, placed["history"].y + 3),
        "editor": (placed["log"].x + 9, placed["log"].y),
        "targets": (placed["targets"].x + 9, placed["targets"].y),
        "jobs": (placed["jobs"].x + 9, placed["jobs"].y),
        "history": (placed["gpus"].x + 9, placed["gpus"].y),
    }[border]
    assert border_at(size, view, x, y) == border
    assert border_at(size, view._replace(zoomed=True), x, y) == ""
    assert border_at(Size(80, 24), view, x, y) == ""


def edges(size: Size, view: View) -> dict[str, int]:
    """Return the position of each border, in cells from the left or the top."""
    placed = regions(size, view)
    return {
        "lists": placed["editor"].x,
        "right": placed["history"].x,
        "editor": placed["log"].y,
        "targets": placed["targets"].y,
        "jobs": placed["jobs"].y,
        "history": placed["gpus"].y,
    }


@pytest.mark.parametrize(
    "broken", [{"active": "nothing"}, {"active": 7, "zoomed": "yes"}, {"lists": -1, "editor": 10**9}], ids=str
)
def test_view_of_any_saved_values_is_valid(broken: dict[str, object]) -> None:
    view = view_of(Values({"screen": broken}))
    assert view.active in PANES
    assert regions(Size(120, 36), view)


@pytest.mark.parametrize("active", PANES)
def test_80_by_24_shows_one_pane_with_most_lines(active: str) -> None:
    placed = regions(Size(80, 24), View(active=active))
    assert [pane for pane in PANES if pane in placed] == [active]
    assert placed[active].width == 80
    assert placed[active].height >= 19
    assert ("latest" in placed) == (active != "log")


def test_zoomed_pane_fills_the_screen_except_header_and_footer() -> None:
    placed = regions(Size(160, 48), View(active="log", zoomed=True))
    assert placed == {
        "header": Region(0, 0, 160, 1),
        "log": Region(0, 1, 160, 46),
        "footer": Region(0, 47, 160, 1),
    }


def test_narrow_screen_shows_an_error_of_the_run_bar() -> None:
    assert regions(Size(80, 24), View(has_error=True, notice_lines=2))["run-bar"].height == 3
    assert regions(Size(80, 24), View())["run-bar"].height == 1


def test_targets_pane_grows_up_to_a_quarter() -> None:
    few, many = (regions(Size(120, 36), View(target_lines=lines))["targets"].height for lines in (1, 30))
    assert few < many <= 36 // 4


@pytest.mark.parametrize(("width", "height", "wide"), [(100, 22, True), (99, 60, False), (200, 21, False)])
def test_least_wide_screen_has_room_for_every_pane(width: int, height: int, wide: bool) -> None:
    assert is_wide(Size(width, height)) is wide
