from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from textual import events
from textual.app import App, ComposeResult
from textual.widgets.text_area import Selection

from tests.ui.waiting import until
from tui_workbench.ui.editor.text_editor import Mark, TextEditor
from tui_workbench.ui.terminal.safetext import is_safe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from textual.pilot import Pilot


class EditorApp(App[None]):
    def __init__(self, source: str, language: str) -> None:
        super().__init__()
        self.editor = TextEditor()
        self.editor.load_source(source, language)

    def compose(self) -> ComposeResult:
        yield self.editor

    def on_mount(self) -> None:
        self.editor.focus()


@asynccontextmanager
async def editing(source: str, language: str = "") -> AsyncIterator[tuple[TextEditor, Pilot[None]]]:
    app = EditorApp(source, language)
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.pause()
        yield app.editor, pilot


class TestText:
    async def test_source_is_the_loaded_text(self) -> None:
        nasty = "a\x1b[31mred\x07\u202e\r\nb\x0c\x85 \ufeff\tend"
        async with editing(nasty) as (editor, pilot):
            assert editor.source == nasty
            await pilot.press("x")
            assert editor.source == "x" + nasty
            await pilot.press("ctrl+z")
            assert editor.source == nasty

    async def test_control_characters_are_never_drawn(self) -> None:
        async with editing("a\x1b]0;title\x07\u202ered \x9b2J\rb\n\x1bc") as (editor, _):
            for strip in editor.render_lines(editor.size.region):
                assert is_safe(strip.text)
            assert "␛" in editor.render_line(0).text

    async def test_invisible_character_under_the_cursor_is_named(self) -> None:
        async with editing("a\u202eb") as (editor, pilot):
            assert editor.cursor_character == ""
            await pilot.press("right")
            assert editor.cursor_character == "U+202E"

    @pytest.mark.slow
    @settings(max_examples=15, suppress_health_check=[HealthCheck.differing_executors])
    @given(st.lists(st.text(st.sampled_from("ab\n\x1b"), max_size=12), min_size=1, max_size=6))
    async def test_any_replacements_can_be_undone_one_by_one(self, versions: list[str]) -> None:
        async with editing("a\nb\n") as (editor, _):
            seen = ["a\nb\n"]
            for version in versions:
                editor.replace_source(version)
                assert editor.source == version
                if version != seen[-1]:
                    seen.append(version)
            for version in reversed(seen[:-1]):
                editor.undo()
                assert editor.source == version

    async def test_replacement_keeps_the_cursor(self) -> None:
        text = "".join(f"line {number}\n" for number in range(100))
        async with editing(text) as (editor, pilot):
            editor.go_to(50, 3)
            await pilot.pause()
            top = editor.scroll_offset.y
            editor.replace_source(text.replace("line 3\n", "line three\n").replace("line 90\n", ""))
            await pilot.pause()
            assert editor.cursor_location == (49, 2)
            assert editor.scroll_offset.y == top


class TestKeys:
    async def test_keys_of_a_burst_act_in_order(self) -> None:
        async with editing("one\ntwo\n") as (editor, _):
            for key, character in (("down", None), ("end", None), ("x", "x"), ("home", None), ("y", "y")):
                editor.post_message(events.Key(key, character))
            await until(lambda: editor.source == "one\nytwox\n")

    @pytest.mark.parametrize(
        ("language", "line", "expected"),
        [
            ("python", "def f():", "def f():\n    x"),
            ("python", "    a = 1", "    a = 1\n    x"),
            ("yaml", "a:", "a:\n  x"),
            ("yaml", "  - b", "  - b\n  x"),
            ("", "a:", "a:\nx"),
        ],
    )
    async def test_new_line_keeps_the_indentation(self, language: str, line: str, expected: str) -> None:
        async with editing(line, language) as (editor, pilot):
            await pilot.press("end", "enter", "x")
            assert editor.source == expected

    async def test_tab_and_shift_tab_move_the_selected_lines(self) -> None:
        async with editing("a\n\n  b\nc", "yaml") as (editor, pilot):
            editor.selection = Selection((0, 0), (3, 0))
            await pilot.press("tab")
            assert editor.source == "  a\n\n    b\nc"
            await pilot.press("shift+tab", "shift+tab")
            assert editor.source == "a\n\nb\nc"
            await pilot.press("ctrl+z")
            assert editor.source == "a\n\n  b\nc"

    async def test_file_with_tabs_is_indented_with_tabs(self) -> None:
        async with editing("all:\n\techo") as (editor, pilot):
            await pilot.press("ctrl+end", "enter", "x")
            assert editor.source == "all:\n\techo\n\tx"

    async def test_comment_key_toggles_lines(self) -> None:
        async with editing("a:\n  b: 1\n\n  #c: 2\n", "yaml") as (editor, pilot):
            editor.selection = Selection((0, 0), (3, 2))
            await pilot.press("ctrl+underscore")
            assert editor.source == "# a:\n#   b: 1\n\n#   #c: 2\n"
            await pilot.press("ctrl+underscore")
            assert editor.source == "a:\n  b: 1\n\n  #c: 2\n"

    async def test_pasted_text_is_normalized_and_safe(self) -> None:
        async with editing("") as (editor, pilot):
            editor.post_message(events.Paste("a\r\nb\rc\x1b[2J"))
            await until(lambda: editor.source == "a\nb\nc\x1b[2J")
            assert is_safe(editor.render_line(2).text)
            await pilot.press("x")
            assert editor.source.endswith("[2Jx")

    async def test_cut_and_copy_use_the_characters_of_the_file(self) -> None:
        async with editing("a\x1bb") as (editor, pilot):
            editor.select_all()
            await pilot.press("ctrl+c")
            assert pilot.app.clipboard == "a\x1bb"
            await pilot.press("ctrl+x")
            assert (editor.source, pilot.app.clipboard) == ("", "a\x1bb")
            await pilot.press("ctrl+v")
            assert editor.source == "a\x1bb"

    async def test_read_only_text_ignores_keys(self) -> None:
        async with editing("a\n  b", "python") as (editor, pilot):
            editor.read_only = True
            editor.select_all()
            await pilot.press(*"x", "enter", "tab", "shift+tab", "ctrl+underscore", "ctrl+x", "ctrl+v", "delete")
            editor.post_message(events.Paste("y"))
            await pilot.pause()
            assert editor.source == "a\n  b"


class TestDrawing:
    async def test_problem_mark_appears_and_disappears(self) -> None:
        async with editing("one\ntwo\n", "yaml") as (editor, _):
            editor.mark_problems([Mark(2, 2, 1, "error")])
            assert [("▲" in editor.render_line(row).text) for row in range(3)] == [False, True, False]
            underlined = [
                segment.text for segment in editor.render_line(1) if segment.style and segment.style.underline
            ]
            assert underlined == ["w"]
            editor.mark_problems([])
            assert "▲" not in editor.render_line(1).text

    async def test_match_marks_do_not_change_the_text(self) -> None:
        async with editing("\tab 中ab\n") as (editor, _):
            plain = editor.render_line(0).text
            editor.mark_matches({0: [(1, 3), (5, 7)]})
            marked = editor.render_line(0)
            assert marked.text == plain
            backgrounds = {
                segment.text: segment.style.bgcolor for segment in marked if segment.style and segment.style.bgcolor
            }
            assert "ab" in backgrounds

    async def test_click_finds_the_character_after_tabs_and_wide_ones(self) -> None:
        async with editing("\t中x\n") as (editor, pilot):
            width = editor.gutter_width + editor.indent_width + 2
            await pilot.click(TextEditor, offset=(width, 0))
            assert editor.cursor_location == (0, 2)

    async def test_long_files_scroll_by_pages(self) -> None:
        async with editing("\n".join(map(str, range(500)))) as (editor, pilot):
            await pilot.press("pagedown", "pagedown")
            assert editor.cursor_location[0] == 2 * editor.size.height
            await pilot.press("ctrl+end")
            assert editor.cursor_location[0] == 499
            assert "499" in editor.render_line(editor.size.height - 1).text
