"""Marked runs: comparing, tagging, canceling, deleting and exporting several runs at once."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.runs.support import make_run
from tests.ui.dashboard.conftest import dashboard, dashboard_of, read, rows, shows, type_text, write
from tests.ui.main.test_main import seen
from tests.ui.runs.past import past_run
from tests.ui.waiting import until
from tui_workbench.core.model import RunRequest, RunState
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.store.rundir import ControllerLock
from tui_workbench.ui import full_screen
from tui_workbench.ui.dashboard.dashboard import DashboardScreen
from tui_workbench.ui.details.run_details import RunDetailsScreen
from tui_workbench.ui.runs.compare import CompareScreen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project
    from tui_workbench.runs.store.rundir import RunDirectory

    Workbench = Pilot[list[Run]]

pytestmark = pytest.mark.slow


async def test_marked_runs_are_compared(past: Project) -> None:
    async with dashboard(past) as pilot:
        await pilot.press("down", "space", "space")
        assert rows(pilot)[1].startswith("●")
        assert rows(pilot)[2].startswith("▲")
        assert "2 marked" in seen(pilot)
        await pilot.press("c")
        await until(lambda: isinstance(pilot.app.screen, CompareScreen))
        assert [run.run_number for run in pilot.app.screen.runs] == [5, 4]  # type: ignore[attr-defined]
        await pilot.press("escape")
        await until(lambda: isinstance(pilot.app.screen, DashboardScreen))
        await pilot.press("U")
        await until(lambda: "marked" not in seen(pilot))


@pytest.fixture
def family(project: Project) -> Project:
    """Return a project with run 4 and a family of runs 1 to 3 that differ in the seed."""
    for number in range(1, 4):
        arguments, curves = ("--lr", "0.1", "--seed", str(number)), {"loss": [float(number)]}
        past_run(project, number, arguments=arguments, exit_code=0, curves=curves, family="sweep-1.1")
    past_run(project, 4, arguments=("--lr", "9"), exit_code=0)
    return project


async def _group_by_family(pilot: Workbench) -> None:
    await pilot.press(*"bbbbb")
    await until(lambda: any("×3" in line for line in rows(pilot)))
    dashboard_of(pilot).table.move_to(2)
    await pilot.pause()


async def test_runs_of_a_marked_family_are_shown_as_marked(family: Project) -> None:
    async with dashboard(family) as pilot:
        await _group_by_family(pilot)
        await pilot.press("space")
        await until(lambda: "3 marked" in seen(pilot))
        assert rows(pilot)[2].startswith("●")
        await pilot.press("b")  # no groups
        await shows(pilot, "4", "3", "2", "1")
        assert [line.startswith("●") for line in rows(pilot)] == [False, True, True, True]


async def test_run_of_a_marked_family_can_be_unmarked(family: Project) -> None:
    async with dashboard(family) as pilot:
        await _group_by_family(pilot)
        await pilot.press("space", "b")
        await shows(pilot, "4", "3", "2", "1")
        dashboard_of(pilot).table.move_to(2)
        await pilot.press("space")
        await until(lambda: "2 marked" in seen(pilot))
        assert [line[0] in "●▲" for line in rows(pilot)] == [False, True, False, True]
        assert sorted(run.run_number for run in dashboard_of(pilot).marked_runs()) == [1, 3]


async def test_folded_family_with_a_marked_run_has_a_sign(family: Project) -> None:
    async with dashboard(family) as pilot:
        dashboard_of(pilot).table.move_to(2)
        await pilot.press("space")
        await until(lambda: "1 marked" in seen(pilot))
        await _group_by_family(pilot)
        assert rows(pilot)[2].startswith("◌")
        await pilot.press("space")
        await until(lambda: "3 marked" in seen(pilot))
        assert rows(pilot)[2].startswith("●")


async def test_unmarked_run_is_compared_with_the_run_below(past: Project) -> None:
    async with dashboard(past) as pilot:
        await pilot.press("down", "c")
        await until(lambda: isinstance(pilot.app.screen, CompareScreen))
        assert [run.run_number for run in pilot.app.screen.runs] == [5, 4]  # type: ignore[attr-defined]


async def test_actions_apply_to_all_marked_runs(past: Project) -> None:
    async with dashboard(past) as pilot:
        await pilot.press("space", "down", "space", "t")  # runs 6 and 4
        await until(lambda: "Tags to add to 2 marked runs" in seen(pilot))
        await type_text(pilot, "done")
        await pilot.press("enter")
        await until(lambda: all("done" in Runs(past).facts(run_id).annotations.tags for run_id in ("6", "4")))
        await until(lambda: "Saved the tags of 2 marked runs." in seen(pilot))
        for done in ("Pinned", "Unpinned"):
            await pilot.press("p")
            await until(lambda done=done: f"{done} 2 marked runs." in seen(pilot))  # type: ignore[misc]
        await pilot.press("F")
        await until(lambda: "Copy the files of 2 marked runs into" in seen(pilot))
        await type_text(pilot, "copies")
        await pilot.press("enter")
        await until(lambda: "Copied" in seen(pilot))
        assert sorted(os.listdir(os.path.join(past.root, "copies"))) == [
            "project_0000000000004",
            "project_0000000000006",
        ]
        await pilot.press("X")
        await until(lambda: "Export 2 marked runs to" in seen(pilot))
        await pilot.press("enter")
        await until(lambda: "Exported 2 runs" in seen(pilot))
        assert len(read(os.path.join(past.root, "runs.csv")).splitlines()) == 3
        await pilot.press("d")
        await shows(pilot, "5", "3", "2", "1")
        await until(lambda: "Archived 2 marked runs." in seen(pilot))
        await pilot.press("d")
        await shows(pilot, "6", "5", "4", "3", "2", "1")
        await until(lambda: "Unarchived 2 marked runs." in seen(pilot))
        await pilot.press("ctrl+z")
        await shows(pilot, "5", "3", "2", "1")
        await until(lambda: "Undone: annotate 2 marked runs." in seen(pilot))
        await pilot.press("ctrl+z")
        await shows(pilot, "6", "5", "4", "3", "2", "1")


@contextmanager
def active_run(past: Project) -> Iterator[RunDirectory]:
    """Add run 9, which is active in the context."""
    run = make_run(past, "project_1700000000099", 9)
    lock = ControllerLock.acquire_new(run)
    assert lock is not None
    with lock:
        yield run


async def test_marks_follow_changes_of_the_runs(past: Project) -> None:
    with active_run(past) as run:
        async with dashboard(past) as pilot:
            await shows(pilot, "6", "5", "4", "3", "2", "1", "9")
            await pilot.press("space", "end", "space")
            assert [each.is_active for each in dashboard_of(pilot).marked_runs()] == [False, True]
            Runs(past).delete("6")
            run.append_event("state", state="completed", final=True, exit_code=0, end=1700000200.0, reason="")
            await shows(pilot, "5", "4", "3", "2", "1", "9")
            await until(lambda: [each.state for each in dashboard_of(pilot).marked_runs()] == ["completed"])
            assert "1 marked" in seen(pilot)


async def test_active_run_is_canceled_after_a_question(project: Project) -> None:
    write(os.path.join(project.root, "wait.py"), "import time\ntime.sleep(600)\n")
    runs = Runs(project)
    run_id = runs.submit(RunRequest("local", "wait.py")).run_id
    try:
        async with dashboard(project) as pilot:
            await until(lambda: dashboard_of(pilot).current_run() is not None)
            await pilot.press("x")
            await until(lambda: "Cancel wait.py [1]?" in seen(pilot))
            await pilot.press("y")
            await until(lambda: runs.get(run_id).state == RunState.CANCELED)
    finally:
        runs.cancel(run_id, grace=0)


async def test_marked_runs_are_moved_to_the_trash_and_back(past: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    Runs(past).annotate("5", lambda old: old._replace(pinned=True))
    async with dashboard(past) as pilot:
        await shows(pilot, "5", "6", "4", "3", "2", "1")
        await pilot.press("space", "D")  # the pinned run
        await until(lambda: "nothing can be deleted: 1 pinned run stays. p unpins runs." in seen(pilot))
        await pilot.press("space", "space", "D")  # and runs 6 and 4
        asked = "Move 2 of 3 marked runs ("
        await until(lambda: asked in seen(pilot))
        assert "to the trash? 1 pinned run stays. ctrl+z undoes this." in " ".join(seen(pilot).split())
        await pilot.press("enter")
        assert asked in seen(pilot)
        await pilot.press("n")
        await until(lambda: asked not in seen(pilot))
        await pilot.press("D")
        await until(lambda: asked in seen(pilot))
        await pilot.press("y")
        await shows(pilot, "5", "3", "2", "1")
        await until(lambda: "Moved 2 runs to the trash." in seen(pilot))
        await until(lambda: "1 marked" in seen(pilot))
        await pilot.press("ctrl+z")
        await shows(pilot, "5", "6", "4", "3", "2", "1")
        await pilot.press("U", "end")
        await until(lambda: (row := dashboard_of(pilot).current_run()) is not None and row.run.run_number == 1)
        await pilot.press("enter")
        await until(lambda: isinstance(pilot.app.screen, RunDetailsScreen))
        await pilot.press("D")
        await until(lambda: "Move train.py [1] (" in seen(pilot))
        await pilot.press("y")
        await until(lambda: isinstance(pilot.app.screen, DashboardScreen))
        await shows(pilot, "5", "6", "4", "3", "2")
        Runs(past).purge([run.run_id for run in Runs(past).deleted()])
        notified: list[str] = []
        monkeypatch.setattr(pilot.app, "notify", lambda text, **_: notified.append(text))
        await pilot.press("ctrl+z")
        await until(lambda: notified)
        assert "annot restore 1 run: deleted permanently" in notified[0]
        await until(lambda: "Undone: delete 1 run." in seen(pilot))


async def test_runs_that_change_after_the_question_stay_and_the_others_are_moved(past: Project) -> None:
    async with dashboard(past) as pilot:
        await shows(pilot, "6", "5", "4", "3", "2", "1")
        await pilot.press("space", "space", "D")
        await until(lambda: "Move 2 marked runs (" in seen(pilot))
        Runs(past).annotate("5", lambda old: old._replace(pinned=True))
        await pilot.press("y")
        await until(lambda: "Moved 1 run to the trash. " in seen(pilot))
        assert "is pinned and cannot be deleted" in seen(pilot)


async def test_active_runs_are_not_deleted(past: Project) -> None:
    with active_run(past) as run:
        async with dashboard(past) as pilot:
            await shows(pilot, "6", "5", "4", "3", "2", "1", "9")
            await pilot.press("space", "end", "space", "D")
            await until(lambda: "Move 1 of 2 marked runs (" in seen(pilot))
            await until(lambda: "1 active run stays." in seen(pilot))
            await pilot.press("y")
            await shows(pilot, "5", "4", "3", "2", "1", "9")
            run.append_event("state", state="completed", final=True, exit_code=0, end=1700000200.0, reason="")


async def test_deletion_of_many_runs_shows_its_progress(past: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_screen, "SHOW_AFTER_SECONDS", 0.0)
    delete, may_go_on = Runs.delete, threading.Event()

    def delete_but_wait(runs: Runs, run: str) -> str:
        if Runs(past).deleted():
            may_go_on.wait()
        return delete(runs, run)

    monkeypatch.setattr(Runs, "delete", delete_but_wait)
    async with dashboard(past) as pilot:
        await shows(pilot, "6", "5", "4", "3", "2", "1")
        await pilot.press("space", "space", "space", "D")
        await until(lambda: "Move 3 marked runs (" in seen(pilot))
        await pilot.press("y")
        await until(lambda: "deleting: 1 of 3 runs, 33 %" in seen(pilot))
        await pilot.press("down")  # the screen handles keys meanwhile
        await until(lambda: (row := dashboard_of(pilot).current_run()) is not None and row.run.run_number == 2)
        may_go_on.set()
        await until(lambda: "Moved 3 runs to the trash." in seen(pilot))
        await shows(pilot, "3", "2", "1")
