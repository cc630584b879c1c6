"""Unsaved edits: dialogs save nothing until a command needs the file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.ui.changes.test_changes import at_box, back, change_shown
from tests.ui.main.conftest import BOX
from tests.ui.main.test_main import opened, screen_of, seen
from tests.ui.waiting import until
from tui_workbench.ui.changes.change import ChangeScreen
from tui_workbench.ui.editor.file_view import FileView
from tui_workbench.ui.runs.preparation import PlanScreen

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ui.changes.test_changes import Workbench
    from tui_workbench.projects.project import Project

pytestmark = pytest.mark.slow


async def edit(pilot: Workbench, name: str, *keys: str) -> None:
    """Type at the start of a file; `name` is relative to the project, or absolute."""
    editor = screen_of(pilot).panes.editor
    assert await editor.open_file(os.path.join(screen_of(pilot).project.root, name))
    view = next(view for view in editor.query(FileView) if view.presenter.root.display)
    view.presenter.show_text()
    view.take_focus()
    view.go_to(1)
    await pilot.press(*keys)
    await until(lambda: view.dirty)
    await pilot.press("escape")


def tree(root: Path) -> dict[str, bytes]:
    """Return the files of the project, without those of runs."""
    files = (path for path in root.rglob("*") if path.is_file() and ".workbench" not in path.parts)
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


async def test_leaving_a_dialog_saves_no_file(project: Project, folder: Path, project_root: Path) -> None:
    async with opened(project) as pilot:
        await edit(pilot, "hello.py", "#", "#")
        await edit(pilot, "aml_config/box.compute", "#", "#")
        before = tree(project_root)
        await at_box(pilot)
        for key in ("m", "d", "f2", "c", "n", "N", "x"):
            await pilot.press(key)
            await until(lambda: isinstance(pilot.app.screen, ChangeScreen))
            await pilot.press("escape")
            await back(pilot)
            assert tree(project_root) == before, key


async def test_showing_the_plan_saves_no_file(project: Project, project_root: Path) -> None:
    async with opened(project) as pilot:
        await edit(pilot, "hello.py", "#", "#")
        before = tree(project_root)
        await pilot.press("2", "p")
        await until(lambda: isinstance(pilot.app.screen, PlanScreen) and "Unsaved edits in hello.py" in seen(pilot))
        await pilot.press("escape")
        await back(pilot)
        assert tree(project_root) == before


async def test_conflict_in_another_file_blocks_no_change(project: Project, folder: Path, project_root: Path) -> None:
    async with opened(project) as pilot:
        await edit(pilot, "hello.py", "#", "#")
        (project_root / "hello.py").write_text("print('theirs')\n")
        await at_box(pilot)
        await pilot.press("c")
        await change_shown(pilot, "+ type: remotedocker")
        await pilot.press("enter")
        await back(pilot)
        assert (folder / "box-copy.compute").read_text() == BOX
        assert (project_root / "hello.py").read_text() == "print('theirs')\n"


async def test_applying_saves_only_files_of_the_change_and_replans(
    project: Project, folder: Path, project_root: Path
) -> None:
    async with opened(project) as pilot:
        await edit(pilot, "hello.py", "#", "#")
        await edit(pilot, "aml_config/box.compute", *"#mine", "enter")
        await at_box(pilot)
        await pilot.press("c")
        await change_shown(pilot, "Unsaved edits in box.compute.")
        await pilot.press("enter")
        await change_shown(pilot, "+ #mine")
        assert not (folder / "box-copy.compute").exists()
        await pilot.press("enter")
        await back(pilot)
        assert (folder / "box-copy.compute").read_text() == f"#mine\n{BOX}"
        assert (project_root / "hello.py").read_text() == 'print("hello")\n'


async def test_conflict_in_a_file_of_the_change_blocks_it(project: Project, folder: Path) -> None:
    async with opened(project) as pilot:
        await edit(pilot, "aml_config/box.compute", *"#mine", "enter")
        (folder / "box.compute").write_text(f"# theirs\n{BOX}")
        await at_box(pilot)
        await pilot.press("d")
        await change_shown(pilot, "Unsaved edits in box.compute.")
        await pilot.press("enter")
        await change_shown(pilot, "cannot save box.compute")
        await pilot.press("escape")
        await back(pilot)
        assert (folder / "box.compute").read_text() == f"# theirs\n{BOX}"


async def test_undo_refuses_files_with_unsaved_edits(project: Project, folder: Path) -> None:
    async with opened(project) as pilot:
        await at_box(pilot)
        await pilot.press("m")
        await change_shown(pilot, "[✓] nvidiaDocker: true")
        await pilot.press("enter")
        await back(pilot)
        ready = (folder / "box.compute").read_text()
        await edit(pilot, "aml_config/box.compute", "#", "#")
        await at_box(pilot)
        await pilot.press("ctrl+z")
        await until(lambda: "unsaved edits in box.compute" in seen(pilot))
        assert (folder / "box.compute").read_text() == ready


async def test_run_saves_only_files_of_the_project(project: Project, project_root: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere.py"
    other.write_text("print('elsewhere')\n")
    async with opened(project) as pilot:
        await edit(pilot, str(other), "#", "#")
        await edit(pilot, "hello.py", "#", "#")
        await pilot.press("ctrl+r")
        await until(lambda: "hello.py [1]" in seen(pilot))
        assert (project_root / "hello.py").read_text() == '##print("hello")\n'
        assert other.read_text() == "print('elsewhere')\n"
