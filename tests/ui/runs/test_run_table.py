"""The table of runs."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from textual.app import App, ComposeResult

from tests.ui.seen import screen_lines
from tui_workbench.ui.runs.run_table import MARK_CELLS, RunTable, TableColumn, TableRow, place_columns
from tui_workbench.ui.widgets.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.pilot import Pilot

COLUMNS = (
    TableColumn("number", "#", 6, right=True),
    TableColumn("name", "name", 20, least=8),
    TableColumn("value", "value", 10, right=True),
    TableColumn("rest", "rest", 10, stretches=True),
)


class TableApp(App[None]):
    """An app that answers the requests of a table."""

    def __init__(self, total: int, *, columns: Sequence[TableColumn] = COLUMNS) -> None:
        super().__init__()
        self.table = RunTable()
        self.total = total
        self.columns = columns
        self.asked: list[tuple[int, int]] = []
        self.answers = True
        self.chosen: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.table

    def on_mount(self) -> None:
        self.table.show_columns(self.columns, "number", descending=True)
        self.set_focus(self.table)
        self.supply(0, 20)

    def supply(self, first: int, number: int) -> None:
        last = min(self.total, first + number)
        self.table.set_rows(self.total, first, [row(place) for place in range(first, last)], empty=("None.",))

    def on_run_table_chosen(self, event: RunTable.Chosen) -> None:
        self.chosen.append(self.table.current)

    def on_run_table_rows_wanted(self, event: RunTable.RowsWanted) -> None:
        self.asked.append((event.first, event.number))
        if self.answers:
            self.supply(event.first, event.number)


def row(place: int) -> TableRow:
    texts = (str(place), f"run {place}", f"{place / 10:g}", "args")
    return TableRow(f"key {place}", tuple((Piece(text),) for text in texts))


async def press(pilot: Pilot[None], *keys: str) -> list[str]:
    await pilot.press(*keys)
    await pilot.pause()
    return screen_lines(pilot.app)


async def test_only_rows_near_the_screen_are_requested() -> None:
    app = TableApp(100_000)
    async with app.run_test(size=(80, 12)) as pilot:
        lines = await press(pilot, "end")
        assert "run 99999" in lines[-1]
        assert app.table.current == "key 99999"
        assert sum(number for _, number in app.asked) < 500
        lines = await press(pilot, "home")
        assert "run 0" in lines[1]


async def test_missing_rows_are_requested_once() -> None:
    app = TableApp(1_000)
    async with app.run_test(size=(80, 12)) as pilot:
        app.answers = False
        lines = await press(pilot, "end")
        assert lines[-1].strip().startswith("…")
        assert app.table.current == ""
        assert len(app.asked) == 1
        app.answers = True
        app.supply(*app.asked[0])
        assert "run 999" in (await press(pilot))[-1]


async def test_rows_that_are_not_provided_are_not_requested_again() -> None:
    app = TableApp(1_000)
    async with app.run_test(size=(80, 12)) as pilot:
        app.answers = False
        await press(pilot, "end")
        for _ in range(5):
            app.table.set_rows(1_000, 900, [])
            await pilot.pause()
        assert len(app.asked) == 1
        await press(pilot, "home")
        app.answers = True
        assert "run 999" in (await press(pilot, "end"))[-1]


async def test_cursor_moves_by_rows_pages_and_columns() -> None:
    app = TableApp(100)
    async with app.run_test(size=(80, 12)) as pilot:
        for keys, at in (
            (("down", "j"), 2),
            (("up",), 1),
            (("pagedown",), 11),
            (("G",), 99),
            (("down",), 99),
            (("g",), 0),
        ):
            await press(pilot, *keys)
            assert app.table.cursor == at, keys
        assert app.table.column is not None
        assert app.table.column.key == "number"
        await press(pilot, "right", "l")
        assert app.table.column.key == "value"
        await press(pilot, "left")
        assert app.table.column.key == "name"


async def test_sorted_column_shows_the_direction() -> None:
    app = TableApp(3)
    async with app.run_test(size=(80, 12)) as pilot:
        assert "▼#" in (await press(pilot))[0]
        app.table.show_columns(COLUMNS, "value", descending=False)
        assert "▲value" in (await press(pilot))[0]


async def test_cursor_stays_on_its_row_when_rows_are_added() -> None:
    app = TableApp(50)
    async with app.run_test(size=(80, 12)) as pilot:
        await press(pilot, "down", "down")
        app.table.set_rows(
            51, 0, [TableRow("new", ((Piece("x"),),)), *(row(place) for place in range(30))], replace=True
        )
        await pilot.pause()
        assert app.table.current == "key 2"
        assert app.table.cursor == 3


async def test_marks_are_shown_before_their_rows() -> None:
    app = TableApp(3)
    async with app.run_test(size=(80, 12)) as pilot:
        app.table.show_marks({"key 1": ("▲", "number")})
        lines = await press(pilot)
        assert lines[2].startswith("▲")
        assert lines[1].startswith(" ")


async def test_empty_table_shows_its_text() -> None:
    app = TableApp(0)
    async with app.run_test(size=(80, 12)) as pilot:
        lines = await press(pilot, "down", "end", "pageup")
        assert any("None." in line for line in lines)
        assert app.table.current == ""


async def test_double_click_chooses_the_row() -> None:
    app = TableApp(30)
    async with app.run_test(size=(80, 12)) as pilot:
        await pilot.click(RunTable, offset=(12, 4), times=2)
        await pilot.pause()
        assert app.chosen == ["key 3"]
        assert app.table.current == "key 3"
        assert app.table.column is not None
        assert app.table.column.key == "name"


@pytest.mark.parametrize("width", [10, 24, 40, 60, 80, 200])
@pytest.mark.parametrize("current", [0, 2, 11])
def test_first_and_current_column_are_always_visible(width: int, current: int) -> None:
    columns = [TableColumn(str(place), str(place), 12, least=6) for place in range(12)]
    placed = place_columns(columns, width, current)
    assert placed[0].number == 0
    assert current in [place.number for place in placed] or width < 24
    assert all(place.left >= MARK_CELLS for place in placed)
    assert placed[-1].left + placed[-1].width <= max(width, MARK_CELLS)
    for before, after in pairwise(placed):
        assert before.left + before.width < after.left


def test_remaining_room_goes_to_stretching_columns() -> None:
    placed = {place.number: place.width for place in place_columns(COLUMNS, 120, 0)}
    assert (placed[0], placed[1], placed[2]) == (6, 20, 10)
    assert placed[3] > 60


@pytest.mark.parametrize("size", [(12, 3), (30, 2), (5, 1)])
async def test_table_fits_any_size(size: tuple[int, int]) -> None:
    app = TableApp(100)
    async with app.run_test(size=size) as pilot:
        lines = await press(pilot, "down", "right", "right", "right", "end")
        assert all(len(line) <= size[0] for line in lines)
