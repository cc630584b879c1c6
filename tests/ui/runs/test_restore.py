"""Restoring files of a run, and shells, from the screens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import write_project
from tests.ui.command_driver import CommandDriver, proves
from tests.ui.dashboard.conftest import dashboard
from tests.ui.main.test_main import opened, seen
from tests.ui.waiting import until
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.ui.runs.restore_screen import RestoreScreen
from tui_workbench.ui.undo import undo_steps

pytestmark = pytest.mark.slow


@pytest.fixture
def tracked(tmp_path: Path) -> Project:
    """Return a project with a changed script and a new file since its only run."""
    project = Project.find(str(write_project(tmp_path / "tracked", tracked=True)))
    run = Runs(project).submit(RunRequest("local", "hello.py"))
    Runs(project).cancel(run.run_id, grace=0)
    Path(project.root, "hello.py").write_text("print('changed since')\n", encoding="utf-8")
    Path(project.root, "new.py").write_text("new\n", encoding="utf-8")
    return project


def text(project: Project, name: str) -> str:
    path = Path(project.root, name)
    return path.read_text(encoding="utf-8") if path.exists() else ""


@proves("restore.go restore.undo")
async def test_restore_shows_changes_makes_them_and_undoes_them(tracked: Project) -> None:
    async with dashboard(tracked) as pilot:
        driver = CommandDriver(pilot)
        await pilot.press("u")
        await until(lambda: isinstance(pilot.app.screen, RestoreScreen) and "~ hello.py" in seen(pilot))
        assert "- new.py" in seen(pilot)
        assert "2 files to restore. Current versions are saved first." in seen(pilot)
        assert text(tracked, "hello.py") == "print('changed since')\n"
        await driver.does("restore.go", lambda: "ctrl+z undoes the restore" in seen(pilot))
        assert text(tracked, "hello.py") == 'print("hello")\n'
        assert text(tracked, "new.py") == ""
        await until(lambda: "No changes: the project's files match the run." in seen(pilot))
        await pilot.press("enter")  # the key has no effect now
        await driver.becomes("restore.undo", lambda: text(tracked, "new.py"), "new\n")
        assert text(tracked, "hello.py") == "print('changed since')\n"


async def test_restore_can_be_undone_after_leaving_the_screen(tracked: Project) -> None:
    async with dashboard(tracked) as pilot:
        await pilot.press("u")
        await until(lambda: isinstance(pilot.app.screen, RestoreScreen) and "~ hello.py" in seen(pilot))
        await pilot.press("enter", "escape")
        await until(lambda: undo_steps(pilot.app).title)
        assert text(tracked, "hello.py") == 'print("hello")\n'
        assert not isinstance(pilot.app.screen, RestoreScreen)
        await pilot.press("ctrl+z")
        await until(lambda: text(tracked, "hello.py") == "print('changed since')\n")


async def test_run_without_snapshot_cannot_be_restored(past: Project) -> None:
    async with dashboard(past) as pilot:
        await pilot.press("u")
        assert not isinstance(pilot.app.screen, RestoreScreen)
        await pilot.press("ctrl+p", *"restore")
        await until(lambda: "This run has no snapshot" in seen(pilot))


async def test_shell_without_a_suitable_terminal_shows_an_error(tracked: Project) -> None:
    async with dashboard(tracked) as pilot:
        await pilot.press("w")
        await until(lambda: "cannot open a shell in a browser" in seen(pilot))
    async with opened(tracked) as pilot:
        await pilot.press("5", "exclamation_mark")
        await until(lambda: "cannot open a shell in a browser" in seen(pilot))
