"""The screen of deleted runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ui.command_driver import CommandDriver, proves
from tests.ui.commands.main_commands import on
from tests.ui.main.test_main import opened, seen
from tests.ui.runs.past import past_run
from tests.ui.waiting import until
from tui_workbench.runs.facade import Runs
from tui_workbench.ui.runs.trash_screen import TrashScreen
from tui_workbench.ui.undo import undo_steps

if TYPE_CHECKING:
    from tui_workbench.projects.project import Project

pytestmark = pytest.mark.slow


@proves("view.trash trash.restore trash.purge trash.purge_all")
async def test_deleted_runs_are_restored_and_purged(project: Project) -> None:
    for number in range(1, 5):
        past_run(project, number, arguments=("--lr", str(number)), exit_code=0)
        Runs(project).delete(str(number))
    async with opened(project) as pilot:
        driver = CommandDriver(pilot)
        await driver.finds("view.trash", lambda: on(pilot, TrashScreen)() and "4 runs" in seen(pilot))
        assert "train.py  --lr 4" in seen(pilot)
        await driver.does("trash.restore", lambda: "Restored train.py [4]." in seen(pilot) and "3 runs" in seen(pilot))
        assert [run.run_number for run in Runs(project).list()] == [4]
        await driver.does("trash.purge", lambda: "Permanently delete train.py [3] (" in seen(pilot))
        assert "Cancel" in seen(pilot).splitlines()[-1]
        assert "Back" not in seen(pilot).splitlines()[-1]
        await pilot.press("enter", "q")  # needs the letter
        await until(lambda: "Permanently delete" in seen(pilot))
        await pilot.press("y")
        await until(lambda: "Deleted 1 run permanently. Freed " in seen(pilot) and "2 runs" in seen(pilot))
        await pilot.press("x")
        await until(lambda: "Permanently delete train.py [2] (" in seen(pilot))
        await pilot.press("tab", "escape")  # the question has lost the focus
        await until(lambda: "Permanently delete" not in seen(pilot))
        assert on(pilot, TrashScreen)()
        await driver.does("trash.purge_all", lambda: "Permanently delete 2 runs (" in seen(pilot))
        await pilot.press("n")
        await until(lambda: "Permanently delete" not in seen(pilot))
        assert len(Runs(project).deleted()) == 2
        await pilot.press("X")
        await until(lambda: "Permanently delete 2 runs (" in seen(pilot))
        await pilot.press("y")
        await until(lambda: "The trash is empty." in seen(pilot))
        assert Runs(project).deleted() == []


async def test_deletion_of_purged_runs_cannot_be_undone(project: Project) -> None:
    past_run(project, 1, exit_code=0)
    async with opened(project) as pilot:
        await pilot.press("6")
        await until(lambda: "1 run" in seen(pilot) and "train.py" in seen(pilot))
        await pilot.press("D")
        await until(lambda: "Move train.py [1] (" in seen(pilot))
        await pilot.press("y")
        await until(lambda: undo_steps(pilot.app).title == "delete 1 run")
        await pilot.press("escape")
        await CommandDriver(pilot).finds("view.trash", lambda: on(pilot, TrashScreen)() and "1 run" in seen(pilot))
        await pilot.press("x")
        await until(lambda: "Permanently delete train.py [1] (" in seen(pilot))
        await pilot.press("y")
        await until(lambda: "Deleted 1 run permanently." in seen(pilot))
        assert undo_steps(pilot.app).title == ""
