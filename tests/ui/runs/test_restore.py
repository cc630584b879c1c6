"""Restoring the project to a run's files, and shells, from the screens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import write_project
from tests.ui.dashboard.conftest import dashboard
from tests.ui.main.test_main import opened, seen
from tests.ui.waiting import until
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.ui.runs.one_run import RestoreScreen


@pytest.fixture
def tracked(tmp_path: Path) -> Project:
    """A project whose script has changed since its only run, and that has a new file."""
    project = Project.find(str(write_project(tmp_path / "tracked", tracked=True)))
    run = Runs(project).submit(RunRequest("local", "hello.py"))
    Runs(project).cancel(run.run_id, grace=0)
    Path(project.root, "hello.py").write_text("print('changed since')\n", encoding="utf-8")
    Path(project.root, "new.py").write_text("new\n", encoding="utf-8")
    return project


def text(project: Project, name: str) -> str:
    path = Path(project.root, name)
    return path.read_text(encoding="utf-8") if path.exists() else ""


async def test_what_would_change_is_shown_then_done_and_brought_back(tracked: Project) -> None:
    async with dashboard(tracked) as pilot:
        await pilot.press("u")
        await until(lambda: isinstance(pilot.app.screen, RestoreScreen) and "~ hello.py" in seen(pilot))
        assert "- new.py" in seen(pilot)
        assert text(tracked, "hello.py") == "print('changed since')\n"
        await pilot.press("enter")
        await until(lambda: "ctrl+z brings back" in seen(pilot))
        assert text(tracked, "hello.py") == 'print("hello")\n'
        assert text(tracked, "new.py") == ""
        await until(lambda: "Nothing: the project's files are as they were" in seen(pilot))
        await pilot.press("enter")  # there is nothing to restore any more
        await pilot.press("ctrl+z")
        await until(lambda: text(tracked, "new.py") == "new\n")
        assert text(tracked, "hello.py") == "print('changed since')\n"


async def test_a_run_without_a_snapshot_cannot_be_restored(past: Project) -> None:
    async with dashboard(past) as pilot:
        await pilot.press("u")
        assert not isinstance(pilot.app.screen, RestoreScreen)
        await pilot.press("ctrl+p", *"restore")
        await until(lambda: "There is no snapshot of this run" in seen(pilot))


async def test_a_terminal_that_cannot_be_given_to_a_shell_is_said(tracked: Project) -> None:
    async with dashboard(tracked) as pilot:
        await pilot.press("w")
        await until(lambda: "this terminal cannot be given to a shell" in seen(pilot))
    async with opened(tracked) as pilot:
        await pilot.press("5", "exclamation_mark")
        await until(lambda: "this terminal cannot be given to a shell" in seen(pilot))
