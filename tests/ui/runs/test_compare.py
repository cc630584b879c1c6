"""The comparison of runs."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import write_project
from tests.ui.main.test_main import opened, seen
from tests.ui.runs.past import falling, past_run
from tests.ui.waiting import until
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.ui.runs.compare import CompareScreen, columns_of
from tui_workbench.ui.terminal.safetext import truncate_middle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from textual.pilot import Pilot

    from tui_workbench.core.model import Run

    Workbench = Pilot[list[Run]]


@asynccontextmanager
async def comparing(project: Project, *numbers: int, size: tuple[int, int] = (120, 36)) -> AsyncIterator[Workbench]:
    """Open the comparison of the runs with these numbers."""
    runs = {run.run_number: run for run in Runs(project).list()}
    async with opened(project, size) as pilot:
        await pilot.app.push_screen(CompareScreen(project, [runs[number] for number in numbers]))
        await until(lambda: screen(pilot).table.total)
        await pilot.pause()
        yield pilot


def write(project: Project, name: str, text: str) -> None:
    Path(project.root, name).write_text(text, encoding="utf-8")


def screen(pilot: Workbench) -> CompareScreen:
    found = pilot.app.screen
    assert isinstance(found, CompareScreen)
    return found


def line_of(pilot: Workbench, name: str) -> list[str]:
    """Return the words of the line that begins with a name."""
    return next(line.split() for line in seen(pilot).split("\n") if line.strip().startswith(name))


async def go_to(pilot: Workbench, name: str) -> None:
    """Move the cursor to the row of this name."""
    await pilot.press("home")
    for _ in range(200):
        if screen(pilot).table.current.partition("\n")[2] == name:
            return
        await pilot.press("down")
    raise AssertionError(f"no row {name}")


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
async def test_equal_rows_are_folded(past: Project, size: tuple[int, int]) -> None:
    async with comparing(past, 1, 3, size=size) as pilot:
        assert not any(line.strip().startswith("user ") for line in seen(pilot).split("\n"))
        await pilot.press("f", "end")
        await until(lambda: any(line.strip().startswith("user ") for line in seen(pilot).split("\n")) or size[1] < 36)


async def test_missing_metric_is_a_dash_without_curve(past: Project) -> None:
    async with comparing(past, 5, 6) as pilot:
        await until(lambda: len(screen(pilot).chart.curves) == 1)
        assert line_of(pilot, "accuracy")[-1] == "—"
        assert "✗ failed" in seen(pilot)


@pytest.mark.slow
async def test_columns_of_twenty_runs_scroll_with_the_cursor(project: Project) -> None:
    for number in range(1, 21):
        past_run(project, number, arguments=("--seed", str(number)), curves={"loss": falling(float(number))})
    async with comparing(project, *range(1, 21), size=(100, 30)) as pilot:
        await until(lambda: len(screen(pilot).chart.curves) == 20)
        assert "[2]" in line_of_titles(pilot)
        assert "[20]" not in line_of_titles(pilot)
        await pilot.press(*["right"] * 20)
        await until(lambda: "[20]" in line_of_titles(pilot))


def line_of_titles(pilot: Workbench) -> str:
    top = screen(pilot).table.content_region.y
    return seen(pilot).split("\n")[top]


@pytest.mark.slow
async def test_changed_code_is_shown_as_a_diff(tmp_path: Path) -> None:
    project = Project.find(str(write_project(tmp_path / "tracked", tracked=True)))
    first = Runs(project).submit(RunRequest("local", "hello.py"))
    write(project, "hello.py", 'print("good morning")\n')
    second = Runs(project).submit(RunRequest("local", "hello.py"))
    for run in (first, second):
        await until(lambda run=run: not Runs(project).get(run.run_id).is_active)  # type: ignore[misc]
    async with comparing(project, 1, 2) as pilot:
        await go_to(pilot, "hello.py")
        await pilot.press("enter")
        await until(lambda: '-print("hello")' in seen(pilot))
        assert '+print("good morning")' in seen(pilot)


@pytest.mark.slow
async def test_comparing_a_deleted_run_shows_an_error(past: Project) -> None:
    import shutil

    runs = {run.run_number: run for run in Runs(past).list()}
    async with opened(past) as pilot:
        shutil.rmtree(runs[3].directory)
        await pilot.app.push_screen(CompareScreen(past, [runs[1], runs[3]]))
        await until(lambda: "no run '" in seen(pilot))
        await pilot.press("enter", "f", "m", "b", "escape")


def test_run_number_survives_a_long_script_name(past: Project) -> None:
    run = Runs(past).list()[0]._replace(script_name="a_very_long_script_name.py", run_number=17)
    column = columns_of([run], 0)[1]
    assert "[17]" in truncate_middle(column.title, column.least)


async def test_chart_fills_the_rows_that_the_table_leaves_free(past: Project) -> None:
    async with comparing(past, 1, 2, size=(120, 40)) as pilot:
        table = screen(pilot).table
        await until(lambda: table.total > 3)
        await until(lambda: table.height_of_rows <= max(table.total, 6) or table.size.height >= 40 * 6 // 10 - 1)
        assert screen(pilot).chart.region.height > 20
