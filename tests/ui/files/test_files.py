from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from textual.app import App, ComposeResult

from tests.ui.seen import content_of
from tests.ui.waiting import until
from tui_workbench.ui.files import files
from tui_workbench.ui.files.file_tree import FileTree, read_folder
from tui_workbench.ui.files.files import FilesPane
from tui_workbench.ui.messages import FileChosen, ScriptChosen
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.widgets.text_field import SearchField

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from textual.pilot import Pilot


class FilesApp(App[None]):
    """An app with only the pane, which records its messages."""

    CSS = "FilesPane { width: 50; height: 20; }"

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.tree_model = FileTree(str(root))
        self.tree_model.accept("", read_folder(str(root), ""))
        self.pane = FilesPane(self.tree_model, id="files")
        self.told: list[object] = []

    def compose(self) -> ComposeResult:
        yield self.pane

    def on_mount(self) -> None:
        self.pane.take_focus()

    def on_file_chosen(self, event: FileChosen) -> None:
        self.told.append(os.path.relpath(event.path, self.tree_model.root))

    def on_script_chosen(self, event: ScriptChosen) -> None:
        self.told.append(("script", event.script))

    def on_files_pane_folder_toggled(self) -> None:
        self.told.append("toggled")

    def on_files_pane_files_walked(self, event: FilesPane.FilesWalked) -> None:
        self.told.append(event.files)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("aml_config/local.compute", "data/raw/numbers.csv", "train.py", "readme.md", ".hidden"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return tmp_path


@pytest.fixture
async def pilot(root: Path) -> AsyncIterator[Pilot[None]]:
    app = FilesApp(root)
    async with app.run_test(size=(60, 24)) as pilot:
        await until(lambda: "local.compute" in shown(pilot))
        yield pilot


def app_of(pilot: Pilot[None]) -> FilesApp:
    assert isinstance(pilot.app, FilesApp)
    return pilot.app


def shown(pilot: Pilot[None]) -> str:
    return "\n".join(content_of(app_of(pilot).pane))


async def go_to(pilot: Pilot[None], path: str) -> None:
    rows = app_of(pilot).pane.query_one(RowList)
    rows.move_to([row.key for row in rows.rows].index(path))
    await pilot.pause()


async def test_only_the_configuration_folder_is_open_at_first(pilot: Pilot[None]) -> None:
    assert shown(pilot).split("\n") == ["▾ aml_config", "local.compute", "▸ data", ".hidden", "readme.md", "train.py"]


async def test_enter_on_a_file_posts_file_chosen(pilot: Pilot[None]) -> None:
    await go_to(pilot, "readme.md")
    await pilot.press("enter")
    await pilot.pause()
    assert app_of(pilot).told == ["readme.md"]


async def test_enter_on_a_folder_toggles_it(pilot: Pilot[None]) -> None:
    await go_to(pilot, "data")
    await pilot.press("enter")
    await until(lambda: "▸ raw" in shown(pilot))
    await pilot.press("enter")
    await until(lambda: "raw" not in shown(pilot))
    assert app_of(pilot).told == ["toggled", "toggled"]


@pytest.mark.parametrize(("right", "left"), [("right", "left"), ("l", "h")])
async def test_right_enters_and_left_leaves_a_folder(pilot: Pilot[None], right: str, left: str) -> None:
    rows = app_of(pilot).pane.query_one(RowList)
    await go_to(pilot, "data")
    await pilot.press(right)
    await until(lambda: "▸ raw" in shown(pilot))
    await pilot.press(right)
    assert rows.current == "data/raw"
    await pilot.press(right)
    await until(lambda: "numbers.csv" in shown(pilot))
    await pilot.press(right)
    assert rows.current == "data/raw/numbers.csv"
    await pilot.press(left)
    assert rows.current == "data/raw"
    await pilot.press(left, left)
    assert rows.current == "data"


async def test_click_opens(pilot: Pilot[None]) -> None:
    await pilot.click(RowList, offset=(8, 5))
    await pilot.pause()
    assert app_of(pilot).told == ["train.py"]


async def test_double_click_on_a_folder_opens_it_once(pilot: Pilot[None]) -> None:
    await pilot.click(RowList, offset=(4, 2), times=2)
    await until(lambda: "▸ raw" in shown(pilot))


async def test_search_finds_and_opens_files_in_closed_folders(pilot: Pilot[None]) -> None:
    await pilot.press("slash", *"numb")
    await until(lambda: "data/raw/numbers.csv" in shown(pilot) and "readme" not in shown(pilot))
    await pilot.press("enter")
    await until(lambda: "data/raw/numbers.csv" in app_of(pilot).told)
    assert not app_of(pilot).pane.query(SearchField)
    await until(lambda: "numbers.csv" in shown(pilot))
    rows = app_of(pilot).pane.query_one(RowList)
    await until(lambda: rows.current == "data/raw/numbers.csv")


async def test_escape_ends_a_search(pilot: Pilot[None]) -> None:
    await pilot.press("slash", *"zebra")
    await until(lambda: "No matching file." in shown(pilot))
    await pilot.press("escape")
    await until(lambda: "▾ aml_config" in shown(pilot))
    assert app_of(pilot).focused is app_of(pilot).pane.query_one(RowList)


async def test_up_and_down_move_in_search_results(pilot: Pilot[None]) -> None:
    await pilot.press("slash", "e")
    await until(lambda: "aml_config/local.compute" in shown(pilot))
    rows = app_of(pilot).pane.query_one(RowList)
    first = rows.current
    await pilot.press("down")
    assert rows.current != first
    await pilot.press("up")
    assert rows.current == first


async def test_new_file_is_shown_after_reread(pilot: Pilot[None], root: Path) -> None:
    (root / "new.compute").write_text("")
    app_of(pilot).pane.reread(["", "a folder that is not shown"])
    await until(lambda: "new.compute" in shown(pilot))


async def test_refresh_reads_every_shown_folder(pilot: Pilot[None], root: Path) -> None:
    (root / "aml_config" / "gpu.compute").write_text("")
    await pilot.press("r")
    await until(lambda: "gpu.compute" in shown(pilot))


async def test_only_a_new_script_starts_a_new_walk(pilot: Pilot[None], root: Path) -> None:
    pane, told = app_of(pilot).pane, app_of(pilot).told
    pane.walk_all()
    await until(lambda: len(told) == 1)
    (root / "checkpoint.pt").write_text("")
    pane.reread([""])
    await until(lambda: "checkpoint.pt" in shown(pilot))
    (root / "new.py").write_text("")
    pane.reread([""])
    await until(lambda: len(told) == 2)
    walked = told[1]
    assert isinstance(walked, list)
    assert {"new.py", "checkpoint.pt"} <= set(walked)


async def test_number_of_search_results_is_limited(
    pilot: Pilot[None], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_RESULTS", 2)
    await pilot.press("slash", "e")
    await until(lambda: "more: type more characters" in shown(pilot))
    await pilot.press("down", "down", "down", "enter")
    await pilot.pause()
    assert app_of(pilot).told[-1] is not None


async def test_files_with_unsaved_edits_are_marked(pilot: Pilot[None], root: Path) -> None:
    app_of(pilot).pane.show_dirty(frozenset({str(root / "train.py")}))
    await until(lambda: "● train.py" in shown(pilot))


async def test_only_python_files_can_be_the_script(pilot: Pilot[None]) -> None:
    pane = app_of(pilot).pane
    await go_to(pilot, "readme.md")
    assert pane.why_not("use_script")
    await pilot.press("s")
    await go_to(pilot, "train.py")
    assert not pane.why_not("use_script")
    await pilot.press("s")
    await pilot.pause()
    assert app_of(pilot).told == [("script", "train.py")]


async def test_control_sequences_in_names_are_shown_as_text(pilot: Pilot[None], root: Path) -> None:
    (root / "evil\x1b[2J\nname.py").write_text("")
    await pilot.press("r")
    await until(lambda: "evil␛[2J␊name.py" in shown(pilot))


async def test_walk_posts_all_files_once(pilot: Pilot[None]) -> None:
    app_of(pilot).pane.walk_all()
    await until(lambda: app_of(pilot).told)
    assert app_of(pilot).told == [
        [".hidden", "readme.md", "train.py", "aml_config/local.compute", "data/raw/numbers.csv"]
    ]
