"""The filter of lists and text views."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from textual.app import App, ComposeResult

from tests.ui.seen import lines_of
from tests.ui.waiting import until
from tui_workbench.ui.terminal.terminal_app import TerminalApp
from tui_workbench.ui.widgets.filterable import NO_MATCH
from tui_workbench.ui.widgets.pieces import Piece, Row, width_of, wrap_pieces
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.widgets.text_view import TextView

if TYPE_CHECKING:
    from textual.pilot import Pilot

NAMES = ("train.py [3] running", "train.py [2] failed", "eval.py [1] completed")
ROWS = [Row(str(number), Piece(name.split()[0]), right=(Piece(name),)) for number, name in enumerate(NAMES)]


class ListApp(TerminalApp[None]):
    def __init__(self) -> None:
        super().__init__()
        self.list = RowList(has_filter=True)

    def compose(self) -> ComposeResult:
        yield self.list

    def on_mount(self) -> None:
        self.list.show_rows(ROWS, empty=("No runs yet.",))
        self.list.focus()


def keys(app: ListApp) -> list[str]:
    return [row.key for row in app.list.rows]


async def test_filter_matches_all_words_in_any_piece() -> None:
    app = ListApp()
    async with app.run_test(size=(50, 8)) as pilot:
        await pilot.press("slash", *"TRAIN fail")
        assert keys(app) == ["1"]
        assert lines_of(app.list)[-1].split() == ["/TRAIN", "fail", "1", "of", "3"]
        await pilot.press(*["backspace"] * 4, *"run")
        assert keys(app) == ["0"]


async def test_enter_keeps_the_filter_and_escape_clears_it() -> None:
    app = ListApp()
    async with app.run_test(size=(50, 8)) as pilot:
        await pilot.press("slash", *"train", "enter", "j")
        assert (keys(app), app.list.current) == (["0", "1"], "1")
        await pilot.press("escape")
        assert (keys(app), app.list.current) == (["0", "1", "2"], "1")
        assert "/" not in lines_of(app.list)[-1]


async def test_previous_filter_is_restored_by_enter() -> None:
    app = ListApp()
    async with app.run_test(size=(50, 8)) as pilot:
        await pilot.press("slash", *"eval", "escape", "slash", "enter")
        assert keys(app) == ["2"]
        await pilot.press("escape", "slash", *"failed", "enter")
        assert keys(app) == ["1"]


async def test_letters_and_arrows_while_typing_a_filter() -> None:
    app = ListApp()
    async with app.run_test(size=(50, 8)) as pilot:
        await pilot.press("slash", *"jk", "enter")
        assert lines_of(app.list)[0].strip() == NO_MATCH[0]
        await pilot.press("escape", "slash", *"train", "down")
        assert app.list.current == "1"


async def test_new_rows_are_filtered() -> None:
    app = ListApp()
    async with app.run_test(size=(50, 8)) as pilot:
        await pilot.press("slash", *"train", "enter")
        app.list.show_rows([Row("9", Piece("train2.py")), Row("8", Piece("other.py")), *ROWS])
        assert keys(app) == ["9", "0", "1"]
        assert app.list.current == "0"


async def test_filter_line_hides_no_row() -> None:
    app = ListApp()
    async with app.run_test(size=(50, 8)) as pilot:
        app.list.show_rows([Row(str(number), Piece(f"row {number:03}")) for number in range(100)])
        await pilot.press("slash", *"row", "enter", "G")
        await until(lambda: lines_of(app.list)[-2].strip() == "row 099")
        assert lines_of(app.list)[-1].split() == ["/row", "100", "of", "100"]


async def test_burst_of_keys_and_paste_keep_their_order() -> None:
    app = ListApp()
    async with app.run_test(size=(50, 8)):
        for key in ("slash", *"eval", "enter"):
            app.simulate_key(key)
        await until(lambda: keys(app) == ["2"])


class TextApp(App[None]):
    def __init__(self, view: TextView) -> None:
        super().__init__()
        self.view = view

    def compose(self) -> ComposeResult:
        yield self.view


@pytest.mark.parametrize("kind", ["text", "lines"])
async def test_text_views_are_filtered_too(kind: str) -> None:
    lines = [(Piece(name),) for name in NAMES]
    view = TextView() if kind == "text" else TextView(make=lambda width: lines)
    app = TextApp(view)
    async with app.run_test(size=(50, 8)) as pilot:
        if kind == "text":
            view.show(lines)
        view.focus()
        await pilot.press("slash", *"completed")
        await until(lambda: _shown(pilot, view) == ["eval.py [1] completed", "/completed  1 of 3"])
        await pilot.press("escape")
        await until(lambda: _shown(pilot, view) == list(NAMES))


def _shown(pilot: Pilot[None], view: TextView) -> list[str]:
    lines = (" ".join(line.replace("/", " /").split()) for line in lines_of(view))
    return [line.replace(" 1 of 3", "  1 of 3") for line in lines if line]


async def test_long_lines_continue_in_the_next_row() -> None:
    view = TextView(wraps=True)
    words = [f"--option-{number}={'x' * number}" for number in range(12)]
    app = TextApp(view)
    async with app.run_test(size=(40, 24)) as pilot:
        await until(lambda: view.size.width > 0)
        view.show([(Piece("$ ", "muted"), Piece(" ".join(words))), (Piece("short"),)])
        await until(lambda: _shown(pilot, view)[-1:] == ["short"])
        assert " ".join(_shown(pilot, view)) == f"$ {' '.join(words)} short"
        assert lines_of(view)[1].startswith(" " * 7 + "--option")  # the padding and the indent
        rows = len(_shown(pilot, view))
        await pilot.resize_terminal(120, 24)
        await until(lambda: 2 < len(_shown(pilot, view)) < rows)


async def test_scroll_bar_hides_no_character_of_a_wrapped_line() -> None:
    view = TextView(wraps=True)
    async with TextApp(view).run_test(size=(40, 6)):
        await until(lambda: view.size.width > 0)
        view.show([(Piece(f"folder {'y' * 30}/work"),)] * 5)
        await until(lambda: view.show_vertical_scrollbar)
        assert "".join(line.strip() for line in lines_of(view)[:2]) == f"folder {'y' * 30}/work"


def test_word_that_is_too_long_is_split() -> None:
    rows = wrap_pieces((Piece("in ", bold=True), Piece("y" * 50)), 20, 4)
    assert all(width_of(row) <= 20 for row in rows)
    assert "".join(piece.text.strip() for row in rows for piece in row) == "in" + "y" * 50
