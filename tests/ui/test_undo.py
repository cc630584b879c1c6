from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from textual.app import App

from tests.ui.main.test_main import WIDE, make_app, opened, screen_of, seen
from tests.ui.waiting import until
from tui_workbench.core.errors import StorageError
from tui_workbench.runs.facade import Runs
from tui_workbench.ui.dashboard.dashboard import DashboardScreen
from tui_workbench.ui.undo import MOST_STEPS, UndoSteps, forget_steps, undo_steps

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project


async def nothing() -> None: ...


async def fail() -> None:
    raise StorageError("the disk is full")


async def test_newest_step_is_undone_first() -> None:
    steps = UndoSteps()
    steps.add("one", nothing)
    steps.add("two", nothing)
    assert (steps.title, await steps.undo(), await steps.undo(), steps.title) == ("two", "two", "one", "")


async def test_step_that_cannot_be_undone_stays() -> None:
    steps = UndoSteps()
    steps.add("one", fail)
    with pytest.raises(StorageError):
        await steps.undo()
    assert steps.title == "one"


async def test_later_change_of_files_is_undone_first() -> None:
    changes: list[str] = []
    steps = UndoSteps()
    steps.count_changes = lambda: len(changes)
    steps.add("a note", nothing)
    assert steps.is_newest
    changes.append("a change")
    assert not steps.is_newest
    changes.pop()
    assert steps.is_newest


async def test_steps_of_purged_runs_are_forgotten() -> None:
    steps = UndoSteps()
    steps.add("choose theme", nothing)
    steps.add("delete 2 runs", nothing, ("a", "b"))
    steps.add("annotate 1 run", nothing, ("c",))
    steps.forget_runs(["c", "b"])
    assert (len(steps), steps.title) == (2, "delete 2 runs")
    steps.forget_runs(["a"])
    assert (len(steps), steps.title) == (1, "choose theme")


def test_number_of_steps_is_limited() -> None:
    steps = UndoSteps()
    for number in range(MOST_STEPS + 5):
        steps.add(str(number), nothing)
    assert len(steps) == MOST_STEPS
    assert steps.title == str(MOST_STEPS + 4)


def test_each_app_has_separate_steps() -> None:
    one, other = App[None](), App[None]()
    undo_steps(one).add("one", nothing)
    assert (undo_steps(one).title, undo_steps(other).title) == ("one", "")


async def table_of(pilot: Pilot[list[Run]]) -> DashboardScreen:
    await pilot.press("6")
    await until(lambda: isinstance(pilot.app.screen, DashboardScreen) and pilot.app.screen.view.table.current)
    assert isinstance(pilot.app.screen, DashboardScreen)
    return pilot.app.screen


@pytest.mark.slow
async def test_annotations_are_undone_on_any_screen(project: Project) -> None:
    async with opened(project) as pilot:
        await pilot.press("ctrl+r")
        await until(lambda: "completed" in seen(pilot))
        await table_of(pilot)
        runs = Runs(project)
        run_id = runs.list()[0].run_id
        await pilot.press("p")
        await until(lambda: runs.facts(run_id).annotations.pinned)
        await pilot.press("t", *"best", "enter")
        await until(lambda: runs.facts(run_id).annotations.tags == {"best": ""})
        await pilot.press("d")
        await until(lambda: runs.facts(run_id).annotations.archived)
        await until(lambda: len(undo_steps(pilot.app)) == 3)
        await pilot.press("ctrl+z")
        await until(lambda: not runs.facts(run_id).annotations.archived)
        await until(lambda: len(undo_steps(pilot.app)) == 2)
        await pilot.press("escape")
        await until(lambda: pilot.app.screen is screen_of(pilot))
        await pilot.press("5", "ctrl+z")
        await until(lambda: runs.facts(run_id).annotations.tags == {})
        assert runs.facts(run_id).annotations.pinned
        await until(lambda: "Undone: annotate hello.py [1]." in screen_of(pilot).panes.run_bar.notice.text)


@pytest.mark.slow
async def test_quick_annotations_are_undone_after_leaving_the_screen(project: Project) -> None:
    async with opened(project) as pilot:
        await pilot.press("ctrl+r")
        await until(lambda: "completed" in seen(pilot))
        await table_of(pilot)
        runs = Runs(project)
        run_id = runs.list()[0].run_id
        await pilot.press("p", "t", *"best", "enter", "escape")
        await until(lambda: len(undo_steps(pilot.app)) == 2)
        assert runs.facts(run_id).annotations.pinned
        assert runs.facts(run_id).annotations.tags == {"best": ""}
        await pilot.press("5", "ctrl+z")
        await until(lambda: runs.facts(run_id).annotations.tags == {})
        assert runs.facts(run_id).annotations.pinned
        await until(lambda: len(undo_steps(pilot.app)) == 1)
        await pilot.press("ctrl+z")
        await until(lambda: not runs.facts(run_id).annotations.pinned)


@pytest.mark.slow
async def test_filter_and_theme_are_undone(project: Project) -> None:
    async with opened(project) as pilot:
        await pilot.press("2", "slash", *"nothing", "escape")
        await until(lambda: "✓ local" in seen(pilot))
        before = pilot.app.theme
        await pilot.press("ctrl+p", *"view.theme", "enter")
        await until(lambda: "Theme" in seen(pilot) and pilot.app.screen is not screen_of(pilot))
        await pilot.press(*"paper", "enter")
        await until(lambda: pilot.app.theme == "paper" and pilot.app.screen is screen_of(pilot))
        await until(lambda: undo_steps(pilot.app).title == "choose theme")
        await pilot.press("ctrl+z")
        await until(lambda: pilot.app.theme == before and undo_steps(pilot.app).title == "clear filter")
        await pilot.press("ctrl+z")
        await until(lambda: "/nothing" in seen(pilot))


async def test_undo_without_steps_shows_a_message(project: Project) -> None:
    async with make_app(project).run_test(size=WIDE, notifications=True) as pilot:
        await until(lambda: screen_of(pilot).is_complete)
        await pilot.press("5", "ctrl+z")
        await until(lambda: "Nothing to undo" in seen(pilot))


@pytest.mark.slow
async def test_late_step_belongs_to_the_project_that_was_open(project: Project) -> None:
    async with opened(project) as pilot:
        await pilot.press("ctrl+r")
        await until(lambda: "completed" in seen(pilot))
        await table_of(pilot)
        steps = undo_steps(pilot.app)
        forget_steps(pilot.app)  # as if the user had switched to another project while the call runs
        await pilot.press("p")
        await until(lambda: len(steps) == 1)
        assert not undo_steps(pilot.app)
