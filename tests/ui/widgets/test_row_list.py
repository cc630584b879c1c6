"""The list of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from textual.app import App, ComposeResult

from tests.ui.seen import content_of, screen_lines
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.row_list import RowList

if TYPE_CHECKING:
    from textual.pilot import Pilot


class ListApp(App[None]):
    """A list of 40 x 5 that records its messages."""

    CSS = "RowList { width: 40; height: 5; }"

    def __init__(self) -> None:
        super().__init__()
        self.rows = RowList()
        self.moved: list[str] = []
        self.clicked: list[tuple[str, int]] = []

    def compose(self) -> ComposeResult:
        yield self.rows

    def on_row_list_cursor_moved(self, event: RowList.CursorMoved) -> None:
        self.moved.append(event.key)

    def on_row_list_clicked(self, event: RowList.Clicked) -> None:
        self.clicked.append((event.key, event.count))


def rows(*keys: str) -> list[Row]:
    return [Row(key, Piece(f"row {key}")) for key in keys]


async def press(pilot: Pilot[None], *keys: str) -> None:
    await pilot.press(*keys)
    await pilot.pause()


async def test_keys_move_the_cursor() -> None:
    app = ListApp()
    async with app.run_test() as pilot:
        app.rows.show_rows(rows(*"abcdefghij"))
        app.rows.focus()
        for keys, at in (
            (("down",), "b"),
            (("j", "j"), "d"),
            (("up", "k", "k", "k"), "a"),
            (("G",), "j"),
            (("down",), "j"),
            (("g",), "a"),
            (("pagedown",), "e"),
            (("pageup",), "a"),
            (("end",), "j"),
            (("home",), "a"),
        ):
            await press(pilot, *keys)
            assert app.rows.current == at, keys


async def test_cursor_is_always_visible() -> None:
    app = ListApp()
    async with app.run_test() as pilot:
        app.rows.show_rows(rows(*map(str, range(50))))
        app.rows.focus()
        await press(pilot, "G")
        assert content_of(app.rows)[-1].startswith("row 49")
        await press(pilot, "g")
        assert content_of(app.rows)[0].startswith("row 0")


async def test_cursor_stays_on_its_row() -> None:
    app = ListApp()
    async with app.run_test() as pilot:
        app.rows.show_rows(rows(*"abc"))
        app.rows.focus()
        await press(pilot, "down")
        app.moved.clear()
        app.rows.show_rows(rows(*"xyabc"))
        await pilot.pause()
        assert app.rows.current == "b"
        assert app.moved == []


async def test_cursor_stays_at_its_index_without_its_row() -> None:
    app = ListApp()
    async with app.run_test() as pilot:
        app.rows.show_rows(rows(*"abc"))
        app.rows.focus()
        await press(pilot, "G")
        app.moved.clear()
        app.rows.show_rows(rows(*"ab"))
        await pilot.pause()
        assert app.rows.current == "b"
        assert app.moved == ["b"]


async def test_show_rows_sets_the_cursor() -> None:
    app = ListApp()
    async with app.run_test() as pilot:
        app.rows.show_rows(rows(*"abc"), current="c")
        await pilot.pause()
        assert app.rows.current == "c"


async def test_empty_list_shows_its_hint() -> None:
    app = ListApp()
    async with app.run_test() as pilot:
        app.rows.show_rows([], empty=("Nothing here.", "a long line that teaches wraps where the list ends"))
        app.rows.focus()
        await press(pilot, "down", "G", "enter")
        assert app.rows.current == ""
        assert content_of(app.rows) == ["Nothing here.", "a long line that teaches wraps where", "the list ends"]


async def test_click_selects_the_row_and_posts_a_message() -> None:
    app = ListApp()
    async with app.run_test() as pilot:
        app.rows.show_rows(rows(*"abc"))
        await pilot.click(RowList, offset=(3, 1))
        assert app.rows.current == "b"
        assert app.clicked == [("b", 1)]
        await pilot.click(RowList, offset=(3, 2), times=2)
        assert app.clicked[-1] == ("c", 2)
        await pilot.click(RowList, offset=(3, 4))
        assert app.rows.current == "c"


@pytest.mark.parametrize("width", [12, 20, 40])
async def test_long_name_is_shortened_in_the_middle(width: int) -> None:
    app = ListApp()
    async with app.run_test() as pilot:
        app.rows.styles.width = width
        row = Row(
            "x", Piece("a_very_long_name_of_a_script_that_trains.py"), before=(Piece("● "),), right=(Piece("0:41"),)
        )
        app.rows.show_rows([row])
        await pilot.pause()
        line = screen_lines(app)[0]
        assert line.endswith("0:41")
        assert line.startswith(" ● a")
        assert len(line) == width - 1
        assert ".py" in line or width == 12


async def test_equal_rows_are_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    app = ListApp()
    refreshed: list[RowList] = []
    async with app.run_test() as pilot:
        app.rows.show_rows(rows(*"abc"))
        await pilot.pause()
        monkeypatch.setattr(app.rows, "refresh", lambda *_, **__: refreshed.append(app.rows))
        app.rows.show_rows(rows(*"abc"))
        assert not refreshed
        app.rows.show_rows(rows(*"abd"))
        assert refreshed
