"""Resizing panes with keys and the mouse, and the right column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from textual.events import MouseMove
from textual.geometry import Offset

from tests.ui.main.test_main import NARROW, WIDE, opened, screen_of, seen
from tests.ui.waiting import until
from tui_workbench.core.model import RunRequest
from tui_workbench.runs.facade import Runs
from tui_workbench.ui.details.run_details import RunDetailsScreen
from tui_workbench.ui.main.main_layout import Sizes

if TYPE_CHECKING:
    from textual.geometry import Region
    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project

LARGE = (200, 60)


def region(pilot: Pilot[list[Run]], pane: str) -> Region:
    return screen_of(pilot).query_one(f"#{pane}").region


@pytest.mark.slow
async def test_keys_move_borders_of_the_focused_column_and_reset_them(project: Project) -> None:
    async with opened(project) as pilot:
        usual = {pane: region(pilot, pane) for pane in ("files", "log", "jobs")}
        for focus, key, pane, edge, by in (
            ("1", "less_than_sign", "files", "right", -4),
            ("4", "greater_than_sign", "log", "x", 4),
            ("5", "left_curly_bracket", "jobs", "y", -2),
            ("4", "right_curly_bracket", "log", "y", 2),
        ):
            moved = getattr(region(pilot, pane), edge) + by
            await pilot.press(focus, key)
            await until(lambda: getattr(region(pilot, pane), edge) == moved)  # noqa: B023
        await pilot.press("equals_sign")
        await until(lambda: {pane: region(pilot, pane) for pane in usual} == usual)


async def test_border_follows_the_mouse(project: Project) -> None:
    async with opened(project) as pilot:
        files = region(pilot, "files")
        await pilot.mouse_down(offset=Offset(files.right - 1, files.y + 3))
        for x in (files.right + 3, files.right + 9):
            pilot.app.post_message(_moved_to(x, files.y + 3))
        await until(lambda: region(pilot, "files").right == files.right + 10)
        await pilot.mouse_up(offset=Offset(files.right + 9, files.y + 3))
        assert pilot.app.mouse_captured is None


async def test_border_between_files_and_targets_follows_the_mouse(project: Project) -> None:
    async with opened(project) as pilot:
        targets = region(pilot, "targets")
        await pilot.mouse_down(offset=Offset(targets.x + 5, targets.y - 1))
        pilot.app.post_message(_moved_to(targets.x + 5, targets.y - 5))
        await until(lambda: region(pilot, "targets").y == targets.y - 4)
        await pilot.mouse_up(offset=Offset(targets.x + 5, targets.y - 5))
        assert region(pilot, "targets").bottom == targets.bottom


async def test_dragging_a_border_opens_and_selects_nothing(project: Project) -> None:
    async with opened(project) as pilot:
        await pilot.press("1", "home", "left")
        files = region(pilot, "files")
        row = next(y for y in range(files.y + 1, files.bottom) if "hello.py" in seen(pilot).splitlines()[y])
        await pilot.mouse_down(offset=Offset(files.x + 6, row + 1))
        pilot.app.post_message(_moved_to(files.x + 6, row))
        await pilot.mouse_up(offset=Offset(files.x + 6, row))
        await pilot.pause()
        assert not pilot.app.screen.selections
        assert "3 Editor" in seen(pilot)


async def test_narrow_screen_refuses_to_move_borders(project: Project) -> None:
    async with opened(project, NARROW) as pilot:
        await pilot.press("less_than_sign")
        assert screen_of(pilot).area.view.sizes == Sizes()
        assert "100 columns by 22 lines" in screen_of(pilot).why_not("move_border")


@pytest.mark.slow
async def test_large_terminal_shows_all_runs_and_gpus(project: Project) -> None:
    Runs(project).submit(RunRequest("local", "hello.py"))
    async with opened(project, LARGE) as pilot:
        await until(lambda: "6 All runs  1" in seen(pilot))
        await until(lambda: "7 GPUs" in seen(pilot))
        screen = screen_of(pilot)
        pilot.app.set_focus(screen.query_one("#history RunTable"))
        await until(lambda: screen.query_one("#history").why_not("open") == "")  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(lambda: isinstance(pilot.app.screen, RunDetailsScreen))


@pytest.mark.slow
async def test_enlarged_terminal_shows_all_runs_and_gpus(project: Project) -> None:
    async with opened(project, WIDE) as pilot:
        assert "All runs  1" not in seen(pilot)
        await pilot.resize_terminal(*LARGE)
        await until(lambda: "6 All runs" in seen(pilot) and "7 GPUs" in seen(pilot))
        await pilot.resize_terminal(*WIDE)
        await until(lambda: "7 GPUs  " not in "\n".join(seen(pilot).splitlines()[:-1]))


def _moved_to(x: int, y: int) -> MouseMove:
    return MouseMove(None, x, y, 0, 0, 1, False, False, False, x, y)
