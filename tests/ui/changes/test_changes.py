"""Changes of configuration files on the main screen: preview, apply, editor, undo."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from textual import events

from tests.ui.main.conftest import BOX
from tests.ui.main.test_main import opened, screen_of, seen
from tests.ui.seen import lines_of
from tests.ui.waiting import until
from tui_workbench.config.changes import lifecycle
from tui_workbench.ui.changes.change import ChangeScreen, ChangeView

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot

    from tui_workbench.config.changes.change_set import ChangeSet
    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project

    Workbench = Pilot[list[Run]]


async def at_box(pilot: Workbench) -> None:
    """Put the cursor on `box`, the first target."""
    await pilot.press("2", "home")
    await until(lambda: screen_of(pilot).panes.targets.changeable_file().endswith("box.compute"))


async def change_shown(pilot: Workbench, text: str) -> ChangeView:
    await until(lambda: isinstance(pilot.app.screen, ChangeScreen) and text in seen(pilot))
    return pilot.app.screen.query_one(ChangeView)


async def back(pilot: Workbench) -> None:
    await until(lambda: pilot.app.screen is screen_of(pilot))
    await pilot.app.workers.wait_for_complete()


@pytest.mark.slow
async def test_gpu_ready_change_is_shown_applied_and_undone(project: Project, folder: Path) -> None:
    (folder.parent / "hello.py").write_text("import torch\n")
    async with opened(project) as pilot:
        await at_box(pilot)
        await pilot.press("m")
        await change_shown(pilot, "[✓] nvidiaDocker: true")
        assert (folder / "box.compute").read_text() == BOX
        await pilot.press("enter")
        await back(pilot)
        assert "nvidiaDocker: true\n" in (folder / "box.compute").read_text()
        assert "Framework: Python\n" in (folder / "box.runconfig").read_text()
        await pilot.press("m")
        await change_shown(pilot, "is already GPU-ready")
        await pilot.press("enter", "escape")
        await back(pilot)
        await pilot.press("ctrl+z")
        await until(lambda: (folder / "box.compute").read_text() == BOX)
        assert (folder / "box.runconfig").read_text() == "Target: box\n"


async def test_hunk_can_be_left_out(project: Project, folder: Path) -> None:
    async with opened(project) as pilot:
        await at_box(pilot)
        await pilot.press("m")
        await change_shown(pilot, "[✓] nvidiaDocker: true")
        await pilot.press("down", "down", "space")
        assert "[ ] nvidiaDocker: true" in seen(pilot)
        await pilot.press("enter")
        await back(pilot)
        assert "nvidiaDocker" not in (folder / "box.compute").read_text()
        assert "cuda" in (folder / "box.compute").read_text()


@pytest.mark.slow
async def test_new_target_is_created_and_opened(project: Project, folder: Path) -> None:
    async with opened(project) as pilot:
        await at_box(pilot)
        await pilot.press("n")
        await change_shown(pilot, "Enter a name.")
        await pilot.press(*"new", "tab", "right")
        await change_shown(pilot, "+ type: localdocker")
        await pilot.press("enter")
        await back(pilot)
        await until(lambda: "3 new.compute" in seen(pilot))
        assert (folder / "new.compute").read_text().startswith("type: localdocker\n")


@pytest.mark.slow
async def test_editor_follows_a_rename_and_a_deletion(project: Project, folder: Path) -> None:
    async with opened(project) as pilot:
        await at_box(pilot)
        await pilot.press("enter")
        await until(lambda: "3 box.compute" in seen(pilot))
        await pilot.press("2", "f2")
        await change_shown(pilot, "New name")
        await pilot.press(*"gpu")
        await change_shown(pilot, "+ Target: gpu")
        await pilot.press("enter")
        await back(pilot)
        await until(lambda: "3 gpu.compute" in seen(pilot))
        assert "Target: gpu" in (folder / "box.runconfig").read_text()
        await pilot.press("2")
        await until(lambda: screen_of(pilot).panes.targets.changeable_file().endswith("gpu.compute"))
        await pilot.press("d")
        await change_shown(pilot, ".workbench/trash")
        await pilot.press("enter")
        await back(pilot)
        await until(lambda: "3 Editor" in seen(pilot))
        assert not (folder / "gpu.compute").exists()
        await pilot.press("ctrl+z")
        await until(lambda: (folder / "gpu.compute").exists())


@pytest.mark.slow
async def test_applying_a_change_saves_edits_of_the_form(project: Project, folder: Path) -> None:
    async with opened(project) as pilot:
        await at_box(pilot)
        await pilot.press("enter")
        await until(lambda: "address" in seen(pilot))
        await pilot.press("down", "enter", *"other", "enter", "f10")
        await change_shown(pilot, "Unsaved edits in box.compute.")
        assert (folder / "box.compute").read_text() == BOX
        await pilot.press("enter")
        await until(lambda: "address: other\n" in (folder / "box.compute").read_text())
        await until(lambda: pilot.app.screen is screen_of(pilot) or "The saved edits changed the plan" in seen(pilot))
        if pilot.app.screen is not screen_of(pilot):
            await pilot.press("enter")
        await back(pilot)
        await until(lambda: "● on" in seen(pilot))
        assert "address: other\n" in (folder / "box.compute").read_text()
        assert "nvidiaDocker: true\n" in (folder / "box.compute").read_text()


async def test_keys_after_enter_do_not_change_the_applied_plan(project: Project, folder: Path) -> None:
    async with opened(project) as pilot:
        await at_box(pilot)
        await pilot.press("c")
        view = await change_shown(pilot, "New name")
        for key in (*"twin", "enter", *"zzz"):
            view.post_message(events.Key(key, key if len(key) == 1 else None))
        await back(pilot)
        assert (folder / "twin.compute").read_text() == BOX


async def test_early_enter_applies_the_plan_when_it_is_ready(
    project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_plan = threading.Event()
    duplicate = lifecycle.duplicate

    def duplicate_slowly(path: str, name: str) -> ChangeSet:
        assert may_plan.wait(90)
        return duplicate(path, name)

    monkeypatch.setattr(lifecycle, "duplicate", duplicate_slowly)
    async with opened(project) as pilot:
        await at_box(pilot)
        await pilot.press("c")
        view = await change_shown(pilot, "New name")
        await pilot.press(*"twin", "enter")
        await until(lambda: view.is_frozen)
        may_plan.set()
        await back(pilot)
        assert (folder / "twin.compute").read_text() == BOX


@pytest.mark.slow
async def test_file_that_changed_on_disk_is_not_overwritten(project: Project, folder: Path) -> None:
    async with opened(project) as pilot:
        await at_box(pilot)
        await pilot.press("d")
        await change_shown(pilot, ".workbench/trash")
        (folder / "box.compute").write_text(BOX + "# theirs\n")
        await pilot.press("enter")
        await change_shown(pilot, "✗")
        assert (folder / "box.compute").read_text() == BOX + "# theirs\n"


async def test_only_configuration_files_can_be_changed_in_files(project: Project, folder: Path) -> None:
    async with opened(project) as pilot:
        files = screen_of(pilot).area.files
        await pilot.press("1", "end")
        assert files.why_not("change_file")
        assert not files.why_not("new_file")
        await pilot.press("home", "down")
        await until(lambda: files.changeable_file().endswith("box.compute"))
        await pilot.press("c")
        await change_shown(pilot, "Duplicate box.compute")


@pytest.mark.parametrize("key", ["n", "N"])
async def test_new_file_asks_for_a_name_without_an_error(project: Project, folder: Path, key: str) -> None:
    async with opened(project) as pilot:
        await pilot.press("1", "home", key)
        await change_shown(pilot, "Enter a name.")
        assert "✗" not in pop_up(pilot)
        await pilot.press("enter")
        await until(lambda: "Enter a name first." in seen(pilot))
        await pilot.press(*"a", "slash", "b")
        await change_shown(pilot, "✗ 'a/b' is not a valid name")


def pop_up(pilot: Workbench) -> str:
    """Return the text of the dialog."""
    return "\n".join(lines_of(pilot.app.screen.query_one(ChangeView)))
