from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import stat
from typing import TYPE_CHECKING

import pytest
from textual.widgets import Input

from tests.ui.panes.editor_driver import editor_app
from tests.ui.seen import content_of
from tests.ui.waiting import until
from tui_workbench.ui.editor.difference_view import DifferenceView
from tui_workbench.ui.editor.editor import EMPTY, EditorPane
from tui_workbench.ui.session_state import Values

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "local.compute").write_bytes(b'type: "local"\n# comment\n')
    (tmp_path / "train.py").write_bytes(b"import torch\n\nprint(torch.__version__)\n")
    return tmp_path


class TestOpening:
    async def test_empty_editor_shows_a_hint(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            await until(lambda: content_of(it.pane) == [EMPTY])
            assert it.pane.empty.has_focus
            assert it.title == "3 Editor"

    async def test_file_opens_in_a_focused_tab_at_its_place(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            editor = await it.open("train.py", line=3)
            assert editor.source == "import torch\n\nprint(torch.__version__)\n"
            assert editor.has_focus
            assert it.title == "3 train.py"
            await until(lambda: it.status.split() == ["3:1", "Python"])

    async def test_reopened_file_keeps_its_tab(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            await it.open("train.py")
            await it.open("local.compute")
            await it.open("train.py")
            assert it.title == "3 train.py  local.compute"
            assert it.bold_in_title() == ["train.py"]

    async def test_last_requested_file_is_shown(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            for name in ("train.py", "local.compute", "train.py", "local.compute"):
                it.pane.run_worker(it.pane.open_file(it.path(name)))
            await it.settled()
            assert it.pane.active == it.path("local.compute")
            assert sorted(it.title.split()[1:]) == ["local.compute", "train.py"]

    async def test_unreadable_file_shows_an_error(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            assert not await it.pane.open_file(it.path("missing\x1b[2J.py"))
            error = "missing␛[2J.py: cannot read: no such file"
            await until(lambda: " ".join(content_of(it.pane)).startswith(error))
            await it.open("train.py")
            assert not await it.pane.open_file(it.path("missing.py"))
            assert "no such file" in it.status
            await it.press("x")
            assert "no such file" not in it.status

    @pytest.mark.parametrize(
        ("name", "data", "said"),
        [
            ("binary", b"\x7fELF\0\x1b[2J", "Read-only: it is binary"),
            ("latin", b"gr\xfc\xdfe\n", "Read-only: it is not UTF-8"),
            ("large", b"0123456789\n" * 200_000, "Read-only: it is larger than 2 MiB. Only the beginning is shown."),
            ("private", "\U000fb000".encode(), "Read-only: it contains private-use"),
        ],
    )
    async def test_read_only_file_shows_why(self, folder: Path, name: str, data: bytes, said: str) -> None:
        (folder / name).write_bytes(data)
        async with editor_app(folder) as it:
            editor = await it.open(name)
            assert said in it.status
            await it.press("x", "ctrl+s")
            assert not it.pane.dirty_paths()
            assert editor.read_only
        assert (folder / name).read_bytes() == data

    async def test_long_file_shows_that_it_is_not_highlighted(self, folder: Path) -> None:
        (folder / "long.yml").write_text("a: 1\n" * 3_000, encoding="utf-8")
        async with editor_app(folder) as it:
            await it.open("long.yml")
            assert "YAML, not highlighted: over 3,000 lines" in it.status


class TestTabs:
    async def test_keys_move_between_tabs(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            await it.open("train.py")
            await it.open("local.compute")
            await it.press("ctrl+pagedown")
            assert it.pane.active == it.path("train.py")
            assert it.bold_in_title() == ["train.py"]
            await it.press("alt+left")
            assert it.pane.active == it.path("local.compute")
            assert it.bold_in_title() == ["local.compute", "Text"]
            assert it.text.has_focus

    async def test_click_shows_a_tab_and_middle_click_closes_it(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            await it.open("train.py")
            await it.open("local.compute")
            await it.pilot.click(EditorPane, offset=(6, 0))
            assert it.pane.active == it.path("train.py")
            await it.pilot.click(EditorPane, offset=(16, 0), button=2)
            await it.settled()
            assert it.title == "3 train.py"

    async def test_closing_the_last_tab_focuses_the_empty_editor(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            await it.open("train.py")
            await it.open("local.compute")
            await it.press("ctrl+w")
            assert it.title == "3 train.py"
            assert it.text.has_focus
            await it.press("ctrl+w")
            assert it.title == "3 Editor"
            assert it.pane.empty.has_focus
            await until(lambda: content_of(it.pane) == [EMPTY])

    async def test_saved_state_restores_files_and_cursors(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            await it.open("train.py", line=3)
            await it.open("local.compute")
            written = json.dumps(it.pane.saved_state)
        saved = json.loads(written)
        saved["tabs"].append({"path": str(folder / "never"), "row": 0, "column": 0})
        async with editor_app(folder) as it:
            await it.pane.restore(Values(saved))
            assert it.title == "3 train.py  local.compute"
            assert Values(it.pane.saved_state).parts("tabs")[0].number("row") == 2
            await until(lambda: it.pane.has_focus_within)

    async def test_tabs_fit_into_a_narrow_terminal(self, folder: Path) -> None:
        async with editor_app(folder, size=(30, 10)) as it:
            for number in range(5):
                (folder / f"a_long_module_name_{number}.py").write_bytes(b"")
                await it.open(f"a_long_module_name_{number}.py")
            assert it.title == "3 ‹4 a_long…_4.py"


class TestSaving:
    async def test_save_changes_only_the_typed_bytes(self, folder: Path) -> None:
        path = folder / "local.compute"
        path.write_bytes(b"\xef\xbb\xbftype: x\r\n\ta \xc3\xbc\x1b[1m\r\nlast")
        path.chmod(0o640)
        async with editor_app(folder) as it:
            await it.open("local.compute")
            assert "BOM   CRLF" in it.status
            await it.press("end", "enter", "n", "e", "w", "ctrl+s")
            assert "Saved." in it.status
        assert path.read_bytes() == b"\xef\xbb\xbftype: x\r\nnew\r\n\ta \xc3\xbc\x1b[1m\r\nlast"
        assert stat.S_IMODE(path.stat().st_mode) == 0o640

    async def test_dirty_mark_disappears_with_save_or_undo(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            await it.open("train.py")
            await it.press("x")
            assert it.title == "3 train.py ●"
            assert it.pane.dirty_paths() == {it.path("train.py")}
            await it.press("ctrl+z")
            assert it.title == "3 train.py"
            await it.press("x", "ctrl+s")
            assert it.title == "3 train.py"
            await it.press("ctrl+z")
            assert it.title == "3 train.py ●"
            dirty = [sorted(message.paths) for message in it.app.told if isinstance(message, EditorPane.DirtyChanged)]
            assert dirty == [[it.path("train.py")], []] * 2 + [[it.path("train.py")]]

    async def test_save_all_includes_keys_that_were_pressed_before(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            await it.open("train.py")
            await it.press("x")
            await it.open("local.compute")
            await it.press("y")
            assert await it.pane.save_all() == []
        assert (folder / "train.py").read_bytes().startswith(b"ximport")
        assert (folder / "local.compute").read_bytes().startswith(b"ytype")

    async def test_unwritable_file_keeps_its_text_and_shows_why(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            await it.open("train.py")
            await it.press("x")
            await asyncio.to_thread(shutil.rmtree, folder)
            assert await it.pane.save_all() == [it.path("train.py")]
            assert "cannot write: no such file or folder" in it.status
            assert it.text.source.startswith("ximport")
            assert it.title == "3 train.py ●"

    async def test_unencodable_character_is_refused_with_its_place(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            editor = await it.open("train.py")
            editor.replace_source("a\n \ud800\n")
            await it.press("ctrl+s")
            assert "Line 2: the character U+D800 cannot be encoded in utf-8. Remove the" in it.status
        assert (folder / "train.py").read_bytes().startswith(b"import")


class TestClosing:
    async def test_closing_an_edited_file_asks_and_can_be_canceled(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            await it.open("train.py")
            await it.press("x", "ctrl+w")
            assert "Unsaved edits." in it.question
            await it.press("escape")
            assert it.question == ""
            assert it.text.has_focus
            assert it.title == "3 train.py ●"

    async def test_closing_an_edited_file_saves_or_discards(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            await it.open("train.py")
            await it.press("x", "ctrl+w", "s")
            assert it.title == "3 Editor"
            assert (folder / "train.py").read_bytes().startswith(b"ximport")
            await it.open("train.py")
            await it.press("y", "ctrl+w", "d")
            assert it.title == "3 Editor"
            assert (folder / "train.py").read_bytes().startswith(b"ximport")

    async def test_queued_key_counts_as_an_edit(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            await it.open("train.py")
            it.app.simulate_key("x")
            it.app.simulate_key("ctrl+w")
            await until(lambda: "Unsaved edits." in it.question)


class TestDisk:
    async def test_clean_file_is_reloaded_and_undo_reverts(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            editor = await it.open("train.py", line=3)
            (folder / "train.py").write_bytes(b"# new\nimport torch\n\nprint(torch.__version__)\n")
            await until(lambda: editor.source.startswith("# new"))
            assert it.title == "3 train.py"
            assert editor.cursor_location == (3, 0)
            assert "Reloaded" in it.status
            await it.press("ctrl+z")
            assert it.title == "3 train.py ●"

    async def test_new_time_of_the_same_bytes_is_ignored(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            await it.open("train.py")
            await it.press("x")
            os.utime(folder / "train.py", (1, 1))
            await it.look_at_disk()
            assert it.question == ""
            await it.press("ctrl+s")
            assert it.title == "3 train.py"

    async def test_change_on_disk_asks_without_taking_the_focus(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            editor = await it.open("train.py")
            await it.press("x")
            (folder / "train.py").write_bytes(b"theirs\n")
            await it.look_at_disk()
            assert "Changed on disk" in it.question
            assert "ctrl+o" in it.question
            await it.press("t")
            assert editor.source.startswith("xtimport")
            assert (folder / "train.py").read_bytes() == b"theirs\n"

    async def test_keep_mine_saves_without_another_question(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            await it.open("train.py")
            await it.press("x")
            (folder / "train.py").write_bytes(b"theirs\n")
            await it.look_at_disk()
            await it.press("ctrl+o", "k")
            assert it.question == ""
            assert it.title == "3 train.py ●"
            assert (folder / "train.py").read_bytes() == b"theirs\n"
            await it.press("ctrl+s")
            assert (folder / "train.py").read_bytes().startswith(b"ximport")

    async def test_loading_the_disk_version_can_be_undone(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            editor = await it.open("train.py")
            await it.press("x")
            (folder / "train.py").write_bytes(b"theirs\n")
            await it.look_at_disk()
            await it.press("ctrl+o", "t")
            assert (editor.source, it.title) == ("theirs\n", "3 train.py")
            assert "Undo restores your text" in it.status
            await it.press("ctrl+z")
            assert editor.source.startswith("ximport")

    async def test_save_over_an_unseen_version_asks_first(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            await it.open("train.py")
            await it.press("x")
            (folder / "train.py").write_bytes(b"theirs\n")
            assert await it.pane.save_all() == [it.path("train.py")]
            assert "overwrite" in it.question
            assert (folder / "train.py").read_bytes() == b"theirs\n"
            await it.press("ctrl+o", "k")
            assert (folder / "train.py").read_bytes().startswith(b"ximport")
            assert it.title == "3 train.py"

    async def test_question_can_be_answered_from_the_difference(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            await it.open("train.py")
            await it.press("x")
            (folder / "train.py").write_bytes(b"theirs\n\nprint(torch.__version__)\n")
            await it.press("ctrl+s", "d")
            shown = it.pane.query_one(DifferenceView)
            lines = [(line.kind, line.text) for line in shown.lines if line.number]
            assert lines[:2] == [("-", "theirs"), ("+", "ximport torch")]
            await it.press("escape")
            assert not it.pane.query(DifferenceView)
            assert it.question
            await it.press("d", "t")
            assert it.text.source.startswith("theirs")
            assert it.text.has_focus
            assert not it.pane.query(DifferenceView)

    async def test_reload_of_a_hidden_file_keeps_the_scroll_position(self, folder: Path) -> None:
        (folder / "train.py").write_text("".join(f"line {number} {'x' * 60}\n" for number in range(200)))
        async with editor_app(folder) as it:
            editor = await it.open("train.py", 100)
            await it.press("end")
            place, cursor = editor.scroll_offset, editor.cursor_location
            assert (place.x, cursor) == (0, (99, 68))
            await it.open("local.compute")
            (folder / "train.py").write_text((folder / "train.py").read_text().replace("line 3 ", "line three "))
            await it.look_at_disk()
            await it.press("ctrl+pageup")
            assert "line three " in editor.source
            assert (editor.scroll_offset, editor.cursor_location) == (place, cursor)

    async def test_question_disappears_when_the_disk_version_returns(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            await it.open("train.py")
            before = (folder / "train.py").read_bytes()
            await it.press("x")
            (folder / "train.py").write_bytes(b"theirs\n")
            await it.look_at_disk()
            assert it.question
            (folder / "train.py").write_bytes(before)
            await it.look_at_disk()
            assert it.question == ""
            await it.press("ctrl+s")
            assert (folder / "train.py").read_bytes() == b"x" + before

    async def test_deleted_file_keeps_its_text_and_can_be_saved(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            await it.open("train.py")
            (folder / "train.py").unlink()
            await it.look_at_disk()
            assert it.title == "3 train.py ✗"
            assert "Deleted on disk" in it.status
            await it.press("ctrl+w")
            assert "the editor has the only copy" in it.question
            await it.press("escape", "ctrl+s")
            assert it.title == "3 train.py"
        assert (folder / "train.py").read_bytes().startswith(b"import torch")


class TestProblems:
    """How the editor shows problems of configuration files. `tests/config` tests the checks."""

    @pytest.fixture
    def configuration(self, tmp_path: Path) -> Path:
        folder = tmp_path / "aml_config"
        folder.mkdir()
        (folder / "gpu.compute").write_bytes(
            b"type: remotedocker\naddress: gpu-box\nbaseDockerImage: microsoft/mmlspark:plus-gpu-0.9.9\n"
        )
        return folder

    async def test_problems_are_shown_and_marked_while_typing(self, configuration: Path) -> None:
        (configuration / "local.compute").write_bytes(b"type: local\n")
        async with editor_app(configuration) as it:
            editor = await it.open("local.compute")
            assert "▲" not in it.status
            await it.press("end", "enter", *"bogus", "colon", "space", "1")
            await until(lambda: "▲" in editor.render_line(1).text)
            assert "bogus" in it.status
            await it.press("up")
            assert "▲ Line 2: " in it.status
            await it.press("down", "end", "backspace", "ctrl+u")
            await until(lambda: "▲" not in editor.render_line(1).text)
            assert "▲" not in it.status

    async def test_long_problem_is_wrapped(self, configuration: Path) -> None:
        async with editor_app(configuration, size=(64, 24)) as it:
            await it.open("gpu.compute", line=3)
            await it.settled()
            await until(lambda: "f9 fix" in it.status)
            said = " ".join(re.sub(r"f9 fix .*?YAML", "", it.status).split())
            assert any(said.endswith(f"{found.message[1:]}. {found.remedy}") for found in it.config.findings), said

    async def test_key_moves_between_problems(self, configuration: Path) -> None:
        (configuration / "local.compute").write_bytes(b"type: local\nfirst: 1\npythonLocation: python\nsecond: 1\n")
        async with editor_app(configuration) as it:
            editor = await it.open("local.compute")
            await it.settled()
            rows = []
            for _ in range(3):
                await it.press("f8")
                rows.append(editor.cursor_location[0])
            assert rows == [1, 3, 1]

    async def test_key_fixes_the_problem_in_the_line_and_undo_reverts(self, configuration: Path) -> None:
        before = (configuration / "gpu.compute").read_text(encoding="utf-8")
        async with editor_app(configuration) as it:
            editor = await it.open("gpu.compute", line=3)
            await it.settled()
            assert "f9 fix" in it.status
            await it.press("f9")
            assert editor.source == before + "nvidiaDocker: true\n"
            assert it.title == "3 gpu.compute ●"
            await it.press("ctrl+z")
            assert editor.source == before

    async def test_unsaved_text_of_another_tab_is_checked(self, configuration: Path) -> None:
        (configuration / "gpu.runconfig").write_bytes(b"Target: new\nFramework: Python\n")
        async with editor_app(configuration) as it:
            await it.open("gpu.runconfig")
            await it.settled()
            assert "new" in it.status
            await it.open("gpu.compute")
            await it.open("gpu.runconfig")
            (configuration / "new.compute").write_bytes(b"type: local\n")
            await it.open("gpu.compute")
            await it.open("gpu.runconfig")
            await it.settled()
            assert "new" not in it.status

    async def test_other_files_are_not_checked(self, configuration: Path) -> None:
        (configuration / "settings.yml").write_bytes(b"a: [\n")
        async with editor_app(configuration) as it:
            await it.open("settings.yml")
            await it.settled()
            assert "▲" not in it.status


class TestSearch:
    async def test_letters_after_the_find_key_go_into_the_search(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            editor = await it.open("train.py")
            for key in ("ctrl+f", "t", "o", "r", "c", "h"):
                it.app.simulate_key(key)
            await until(lambda: it.pane.query(Input) and it.pane.query_one(Input).value == "torch")
            await until(lambda: editor.selected_text == "torch")
            assert editor.cursor_location[0] == 0
            assert not it.pane.dirty_paths()

    async def test_enter_moves_between_matches_and_escape_ends_the_search(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            editor = await it.open("train.py")
            await it.press("ctrl+f", *"torch", "enter")
            assert editor.selection.start == (2, 6)
            await it.press("enter")
            assert editor.selection.start == (0, 7)
            await it.press("up")
            assert editor.selection.start == (2, 6)
            await it.press("escape")
            assert editor.has_focus
            assert editor.selected_text == "torch"

    async def test_search_goes_to_a_line(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            editor = await it.open("train.py")
            await it.press("ctrl+f", *":3", "escape")
            assert editor.cursor_location == (2, 0)


class TestCommands:
    @pytest.mark.slow
    async def test_only_available_commands_are_enabled(self, folder: Path) -> None:
        async with editor_app(folder) as it:
            assert it.pane.why_not("close_tab") == "No file is open."
            await it.open("train.py")
            view = it.view
            assert not it.pane.check_action("next_tab", ())
            assert not view.check_action("save", ())
            assert not view.check_action("answer", ())
            await it.press("x")
            assert view.check_action("save", ())
            assert it.pane.check_action("close_tab", ())
