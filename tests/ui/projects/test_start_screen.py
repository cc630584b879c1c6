"""The start screen, outside of a project and over one."""

from __future__ import annotations

import os
import subprocess
import threading
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import write_project
from tests.ui.command_driver import CommandDriver, proves
from tests.ui.main.test_main import opened, screen_of, seen
from tests.ui.main.test_unsaved_edits import edit
from tests.ui.seen import content_of
from tests.ui.waiting import until
from tui_workbench.runs.facade import Runs
from tui_workbench.ui.app import Opened, WorkbenchApp, open_project
from tui_workbench.ui.main.main import MainScreen
from tui_workbench.ui.projects.start_screen import StartScreen
from tui_workbench.ui.session_state import save_session
from tui_workbench.ui.themes.themes import load_theme
from tui_workbench.ui.undo import undo_steps
from tui_workbench.ui.widgets.question_row import QuestionRow
from tui_workbench.ui.widgets.row_list import RowList

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project

SLOW = "import time\nprint('going', flush=True)\ntime.sleep(600)\n"


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Return the folder of a recent project."""
    root = write_project(tmp_path / "other")
    save_session(str(root), {})
    return root


@pytest.fixture
def repository(project_root: Path) -> str:
    """Return the URL of a repository that contains a project."""
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@example.org")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "x")):
        subprocess.run([*git, *words], cwd=project_root, check=True)
    return f"file://{project_root}"


@pytest.fixture
def hanging_git(tmp_path: Path) -> Path:
    """Return a folder with a `git` that hangs, a stand-in for a server that does not answer."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "git").write_text("#!/bin/sh\nsleep 600\n")
    (programs / "git").chmod(0o755)
    return programs


@asynccontextmanager
async def outside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pilot[list[Run]]]:
    """Open the workbench in a folder that is not a project."""
    monkeypatch.chdir(folder)
    async with WorkbenchApp(None, None, load_theme("slate")).run_test(size=(80, 24)) as pilot:
        await until(lambda: "New project from a template" in seen(pilot))
        yield pilot


def start_screen(pilot: Pilot[list[Run]]) -> StartScreen:
    screen = pilot.app.screen
    assert isinstance(screen, StartScreen)
    return screen


def shows(pilot: Pilot[list[Run]], root: Path) -> bool:
    """Return True if the main screen of this project has been read."""
    screen = pilot.app.screen
    return isinstance(screen, MainScreen) and screen.project.root == str(root) and screen.is_complete


async def answer(pilot: Pilot[list[Run]], label: str, text: str) -> None:
    """Replace the text of the open prompt."""
    await until(lambda: label in seen(pilot))
    await pilot.press("ctrl+u", *text, "enter")


async def nothing() -> None: ...


@pytest.mark.slow
@proves("start.open start.quit")
async def test_recent_project_is_opened(other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    save_session(str(gone), {})
    async with outside(tmp_path, monkeypatch) as pilot:
        await until(lambda: [line.split()[0] for line in content_of(start_screen(pilot).recent)] == ["other"])
        await CommandDriver(pilot).does("start.open", lambda: shows(pilot, other))
    async with outside(tmp_path, monkeypatch) as pilot:
        await CommandDriver(pilot).does("start.quit", lambda: not pilot.app.is_running)


@pytest.mark.slow
@proves("start.leave")
async def test_escape_closes_a_question_that_has_lost_the_focus(
    other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with outside(tmp_path, monkeypatch) as pilot:
        await until(lambda: "other" in seen(pilot))
        screen = start_screen(pilot)
        assert "esc Cancel" not in seen(pilot)
        for key, label in (("o", "Folder"), ("c", "URL of the repository")):
            await pilot.press(key)
            await until(lambda label=label: label in seen(pilot))  # type: ignore[misc]
            await pilot.press("tab")
            await until(lambda: screen.focused is not screen.prompt.field)
            await CommandDriver(pilot).does("start.leave", lambda: not screen.prompt.display)
        assert isinstance(screen.focused, RowList)
        await until(lambda: "esc Cancel" not in seen(pilot))
        (tmp_path / "plain").mkdir()
        await pilot.press("o")
        await answer(pilot, "Folder", str(tmp_path / "plain"))
        await until(lambda: screen.query(QuestionRow))
        await pilot.press("tab", "escape")
        await until(lambda: not screen.query(QuestionRow))
        assert pilot.app.screen is screen


@pytest.mark.slow
async def test_typing_replaces_the_suggested_folder(other: Path, project: Project) -> None:
    async with opened(project) as pilot:
        await pilot.press("O")
        await until(lambda: isinstance(pilot.app.screen, StartScreen) and start_screen(pilot).recent.current)
        await pilot.press("o")
        await until(lambda: start_screen(pilot).prompt.field.value)
        assert "enter Accept" in " ".join(seen(pilot).splitlines()[-1].split())
        await pilot.press(*str(other), "enter")
        await until(lambda: shows(pilot, other))


async def test_error_of_a_canceled_question_is_not_shown_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with outside(tmp_path, monkeypatch) as pilot:
        await pilot.press("c")
        await answer(pilot, "URL of the repository", "ext::x")
        await until(lambda: "is not the URL of a repository" in seen(pilot))
        await pilot.press("escape", "o")
        await until(lambda: "Folder" in seen(pilot))
        await until(lambda: "is not the URL of a repository" not in seen(pilot))


async def test_disk_that_hangs_does_not_block(other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_session(str(tmp_path / "dead"), {})
    hangs, isdir = threading.Event(), os.path.isdir
    # A stand-in for a network disk that does not respond.
    monkeypatch.setattr(os.path, "isdir", lambda path: isdir(path) if "/dead/" not in str(path) else hangs.wait())
    async with outside(tmp_path, monkeypatch) as pilot:
        await until(lambda: "dead" in seen(pilot) and "other" in seen(pilot))
        await pilot.press(*(["down"] if start_screen(pilot).recent.current != str(other) else []), "enter")
        await until(lambda: shows(pilot, other))
    hangs.set()


async def test_project_is_created_from_a_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with outside(tmp_path, monkeypatch) as pilot:
        await until(lambda: start_screen(pilot).focused is start_screen(pilot).templates)
        await pilot.press("down", "enter")
        await answer(pilot, "Folder of the new digits project", "no_name")
        await until(lambda: "'no_name' is not a valid project name" in seen(pilot))
        await pilot.press("enter")
        await until(lambda: "Folder of the new digits project" in seen(pilot))
        await pilot.press("enter")
        await until(lambda: shows(pilot, tmp_path / "digits"))
        assert (tmp_path / "digits" / "train.py").is_file()


@pytest.mark.slow
@proves("view.projects start.folder")
async def test_folder_becomes_a_project_and_nothing_of_the_old_one_stays(
    project: Project, project_root: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (project_root / "hello.py").write_text(SLOW)
    async with opened(project) as pilot:
        driver, before = CommandDriver(pilot), screen_of(pilot)
        await pilot.press("ctrl+r")
        await until(lambda: "1 running" in seen(pilot))
        undo_steps(pilot.app).add("a step of the old project", nothing)
        await driver.does("view.projects", lambda: isinstance(pilot.app.screen, StartScreen))
        await pilot.press("escape")
        await until(lambda: pilot.app.screen is before)
        await pilot.press("O")
        await until(lambda: isinstance(pilot.app.screen, StartScreen))
        await driver.does("start.folder", lambda: "Folder" in seen(pilot).splitlines()[-2])
        await answer(pilot, "Folder", str(tmp_path / "wrong"))
        await until(lambda: "wrong is not a folder" in seen(pilot))
        await until(lambda: "Folder" in seen(pilot) and start_screen(pilot).prompt.field.value.endswith("/wrong"))
        await answer(pilot, "Folder", str(folder))
        await until(lambda: "plain is not a project" in seen(pilot))
        assert not (folder / "aml_config").exists()
        await pilot.press("y")
        await until(lambda: shows(pilot, folder))
        assert not before.is_attached
        assert len(pilot.app.screen_stack) == 1
        assert not undo_steps(pilot.app)
        before.coordinator.context.watcher.join()
        (run,) = Runs(project).list()
        assert run.is_active


async def test_project_that_opens_late_is_not_shown(
    project: Project, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    responds = threading.Event()

    def open_late(root: str) -> Opened:
        responds.wait()
        return open_project(root)

    # A stand-in for a network disk that responds late.
    monkeypatch.setattr("tui_workbench.ui.app.open_project", open_late)
    async with opened(project) as pilot:
        before = screen_of(pilot)
        await pilot.press("O")
        await until(lambda: isinstance(pilot.app.screen, StartScreen) and start_screen(pilot).recent.current)
        await pilot.press("enter")
        await until(lambda: any(worker.group == "open project" for worker in pilot.app.workers))
        await pilot.press("escape")
        await until(lambda: pilot.app.screen is before)
        responds.set()
        await until(lambda: not any(worker.group == "open project" for worker in pilot.app.workers))
        await pilot.pause()
        assert pilot.app.screen is before


@pytest.mark.slow
async def test_unsaved_edits_are_asked_about(project: Project, project_root: Path, other: Path) -> None:
    async with opened(project) as pilot:
        await edit(pilot, "hello.py", "#", "#")
        for key in ("escape", "s"):
            await pilot.press("O")
            await until(lambda: isinstance(pilot.app.screen, StartScreen) and start_screen(pilot).recent.current)
            await pilot.press("enter")
            await until(lambda: "Unsaved edits in 1 file." in seen(pilot) and "save and switch" in seen(pilot))
            assert (project_root / "hello.py").read_text() == 'print("hello")\n'
            await pilot.press(key)
            await until(lambda: "Unsaved edits" not in seen(pilot))
        await until(lambda: shows(pilot, other))
        assert (project_root / "hello.py").read_text() == '##print("hello")\n'


@pytest.mark.slow
@proves("start.clone start.stop")
async def test_repository_is_cloned_and_opened(
    repository: str, hanging_git: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with outside(tmp_path, monkeypatch) as pilot:
        driver = CommandDriver(pilot)
        await driver.does("start.clone", lambda: "URL of the repository" in seen(pilot))
        await answer(pilot, "URL of the repository", "ext::x")
        await until(lambda: "'ext::x' is not the URL of a repository" in seen(pilot))
        await answer(pilot, "URL of the repository", repository)
        with monkeypatch.context() as hanging:
            hanging.setenv("PATH", f"{hanging_git}:{os.environ['PATH']}")
            await answer(pilot, "New folder", str(tmp_path / "copy"))
            await until(lambda: "Cloning file://" in seen(pilot))
            await driver.does("start.stop", lambda: "The clone was stopped." in seen(pilot))
        assert not (tmp_path / "copy").exists()
        await pilot.press("c")
        await answer(pilot, "URL of the repository", repository)
        await answer(pilot, "New folder", str(tmp_path / "copy"))
        await until(lambda: shows(pilot, tmp_path / "copy"))


@pytest.mark.slow
async def test_leaving_stops_the_clone(
    project: Project, hanging_git: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{hanging_git}:{os.environ['PATH']}")
    async with opened(project) as pilot:
        await pilot.press("O")
        await until(lambda: isinstance(pilot.app.screen, StartScreen))
        await pilot.press("c")
        await answer(pilot, "URL of the repository", "https://localhost/x")
        await answer(pilot, "New folder", str(tmp_path / "copy"))
        await until(lambda: list(tmp_path.glob(".copy-*")))
        await pilot.press("escape")
        await until(lambda: pilot.app.screen is screen_of(pilot))
        await until(lambda: not list(tmp_path.glob(".copy-*")))


async def test_empty_editor_shows_the_readme(project: Project, project_root: Path) -> None:
    readme = project_root / "README.md"
    readme.write_text("# Net\n\nA [link](https://e.org)\x1b]0;x\x07\n\n| lr | loss |\n|---|---|\n| 0.1 | 2 |\n")
    async with opened(project) as pilot:
        editor = screen_of(pilot).panes.editor
        await until(lambda: "Net" in content_of(editor))
        assert content_of(editor)[1:] == ["A link (https://e.org)␛]0;x␇", "lr   loss", "─" * 9, "0.1  2"]
        await editor.open_file(str(readme))
        await until(lambda: "# Net" in "\n".join(content_of(editor)))
        readme.write_text("# Changed\n")
        await pilot.press("ctrl+w")
        await until(lambda: content_of(editor)[:1] == ["Changed"])
