"""Every command of the editor and its form, by its key."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.notebooks import notebook
from tests.ui.command_driver import CommandDriver, proves
from tests.ui.commands.main_commands import Workbench, on, shows
from tests.ui.main.test_main import opened, screen_of, seen
from tests.ui.seen import lines_of
from tests.ui.waiting import until
from tui_workbench.ui.changes.change import ChangeScreen
from tui_workbench.ui.editor.text_editor import TextEditor
from tui_workbench.ui.form.form_view import FormView
from tui_workbench.ui.widgets.text_view import TextView

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tui_workbench.projects.project import Project

pytestmark = pytest.mark.slow


@proves("editor.close editor.next editor.back editor.leave")
async def test_editor_commands(project: Project, project_root: Path) -> None:
    async with opened(project) as pilot:
        driver, screen = CommandDriver(pilot), screen_of(pilot)
        editor = screen.panes.editor
        for name in ("hello.py", "aml_config/local.compute"):
            await editor.open_file(str(project_root / name))

        def active() -> str:
            return os.path.basename(editor.active)

        await until(lambda: active() == "local.compute")
        await driver.becomes("editor.next", active, "hello.py")
        await driver.becomes("editor.back", active, "local.compute")
        await driver.does("editor.leave", lambda: screen.area.files.has_focus_within)
        await pilot.press("3")
        await driver.becomes("editor.close", active, "hello.py")


@proves("file.save file.find file.answer")
async def test_file_commands(project: Project, project_root: Path) -> None:
    path = project_root / "hello.py"
    async with opened(project) as pilot:
        driver, screen = CommandDriver(pilot), screen_of(pilot)
        await screen.panes.editor.open_file(str(path))
        await until(lambda: isinstance(screen.focused, TextEditor))
        await pilot.press("x")
        await driver.does("file.save", lambda: path.read_text().startswith("x"))
        await driver.does("file.find", shows(pilot, "text, or :12 for a line"))
        await pilot.press("escape", "y")
        path.write_text("somebody else\n")
        await until(shows(pilot, "ctrl+o answers"))
        await driver.does("file.answer", lambda: "QuestionRow" in type(screen.focused).__name__)


@proves("config.view config.problem config.gpu_ready config.fix")
async def test_configuration_commands(project: Project, project_root: Path) -> None:
    path = project_root / "aml_config" / "box.compute"
    path.write_text("# one\ntype: remotedocker\naddress: box\nbaseDockerImage: ubuntu\nnvidiaDocker: yes\n")
    async with opened(project) as pilot:
        driver, screen = CommandDriver(pilot), screen_of(pilot)
        await screen.panes.editor.open_file(str(path))
        form = screen.query_one(FormView)
        await pilot.app.workers.wait_for_complete()
        await pilot.press("end")
        await driver.changes("config.problem", lambda: form.current)
        await driver.changes("config.fix", lambda: seen(pilot))
        await driver.does("config.view", lambda: isinstance(screen.focused, TextEditor))
        await driver.does("config.gpu_ready", on(pilot, ChangeScreen))


@proves("notebook.view notebook.edit")
async def test_notebook_commands(project: Project, project_root: Path) -> None:
    (project_root / "train.ipynb").write_text(notebook("print(1)"))
    async with opened(project) as pilot:
        driver, screen = CommandDriver(pilot), screen_of(pilot)
        await screen.panes.editor.open_file(str(project_root / "train.ipynb"))
        await until(shows(pilot, "│ print(1)"))
        await driver.does("notebook.view", lambda: isinstance(screen.focused, TextEditor))
        await driver.does("notebook.view", lambda: isinstance(screen.focused, TextView))
        await driver.does("notebook.edit", lambda: isinstance(screen.focused, TextEditor))


RUNCONFIG = """Target: "local"
ArgumentVector:
  - "$file"
  - "--lr"
EnvironmentVariables:
  ONE: "1"
Framework: "Python"
TrackedRun: false
"""


def text_of(pilot: Workbench) -> str:
    return screen_of(pilot).query_one(TextEditor).source


@pytest.fixture
def configuration(project_root: Path) -> str:
    """Return the path of a run configuration with the text RUNCONFIG."""
    path = project_root / "aml_config" / "local.runconfig"
    path.write_text(RUNCONFIG)
    return str(path)


@asynccontextmanager
async def form_opened(project: Project, configuration: str) -> AsyncIterator[tuple[Workbench, FormView]]:
    """Open the main screen with the form of a configuration, which has the focus."""
    async with opened(project, (120, 24)) as pilot:
        screen = screen_of(pilot)
        await screen.panes.editor.open_file(configuration)
        form = screen.query_one(FormView)
        await until(lambda: form.has_focus and form.current)
        await pilot.app.workers.wait_for_complete()
        yield pilot, form


async def go_to(pilot: Workbench, form: FormView, line: int) -> None:
    assert form.go_to_line(line)
    await pilot.pause()


@proves("form.up form.down form.page_up form.page_down form.first form.last")
async def test_form_movement_commands(project: Project, configuration: str) -> None:
    async with form_opened(project, configuration) as (pilot, form):
        driver = CommandDriver(pilot)

        def at() -> str:
            row = form.current
            return f"{row.kind} {row.field.key} {row.line}" if row is not None else ""

        first = at()
        await driver.changes("form.down", at)
        await driver.becomes("form.up", at, first)
        await driver.changes("form.page_down", at)
        await driver.becomes("form.page_up", at, first)
        await driver.changes("form.last", at)
        await driver.becomes("form.first", at, first)


@proves(
    "form.edit form.toggle form.add form.clear form.move_up form.move_down form.rename form.undo form.redo form.accept "
    "form.cancel"
)
async def test_form_edit_commands(project: Project, configuration: str) -> None:
    async with form_opened(project, configuration) as (pilot, form):
        driver = CommandDriver(pilot)
        await go_to(pilot, form, 8)
        await driver.does("form.toggle", lambda: "TrackedRun: true" in text_of(pilot))
        await driver.does("form.undo", lambda: "TrackedRun: false" in text_of(pilot))
        await driver.does("form.redo", lambda: "TrackedRun: true" in text_of(pilot))
        await go_to(pilot, form, 4)
        await driver.does("form.edit", lambda: form.is_editing)
        await pilot.press("end", *"2")
        await driver.does("form.accept", lambda: '"--lr2"' in text_of(pilot))
        await go_to(pilot, form, 4)
        await driver.does("form.move_up", lambda: text_of(pilot).index("--lr2") < text_of(pilot).index("$file"))
        await driver.does("form.move_down", lambda: text_of(pilot).index("--lr2") > text_of(pilot).index("$file"))
        await pilot.press("enter", *"zzz")
        await driver.does("form.cancel", lambda: not form.is_editing)
        assert "zzz" not in text_of(pilot)
        await go_to(pilot, form, 6)
        await driver.does("form.rename", lambda: form.is_editing)
        await pilot.press(*"TWO", "enter")
        await until(lambda: "TWO:" in text_of(pilot))
        await driver.does("form.clear", lambda: "TWO:" not in text_of(pilot))
        await go_to(pilot, form, 3)
        await driver.does("form.add", lambda: form.is_editing)


@proves("form.complete form.fix")
async def test_form_completion_and_fix_commands(project: Project, configuration: str) -> None:
    async with form_opened(project, configuration) as (pilot, form):
        driver, screen = CommandDriver(pilot), screen_of(pilot)
        await go_to(pilot, form, 1)
        await pilot.press("enter", *"loc")
        await until(lambda: form.is_editing and "local" in lines_of(form)[1])
        await driver.does("form.complete", lambda: lines_of(form)[0].split() == ["Target", "local"])
        await pilot.press("escape")
        await pilot.press("ctrl+t")
        editor = screen.query_one(TextEditor)
        editor.replace_source("Target: local\nTrackedRun: yes\n")
        await pilot.press("ctrl+t")
        await until(lambda: form.current is not None and len(text_of(pilot)) < 40)
        await pilot.app.workers.wait_for_complete()
        await pilot.press("f8")
        await until(lambda: form.finding)
        await driver.changes("form.fix", lambda: text_of(pilot))
