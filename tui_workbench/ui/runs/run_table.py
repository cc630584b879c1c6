"""A table of any length with a cursor: only the rows on the screen are ever asked for, kept or drawn.

The rows are values that the owner hands down for the places that `RowsWanted` names. The cursor is on a row and on a
column; it stays on its row by the row's key when other rows come around it. The invariant: nothing takes longer because
the table is longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.segment import Segment
from textual import events, on
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.ui.commands.main_commands import LIST
from tui_workbench.ui.commands.screen_commands import TABLE
from tui_workbench.ui.terminal.safetext import truncate_middle
from tui_workbench.ui.themes.themes import palette_of, style
from tui_workbench.ui.widgets.pieces import Piece, draw_line, width_of

GAP = 2
"""Cells between two columns."""

MARK_CELLS = 2
LEAST_CUT = 5
"""Cells that the first piece of a cell keeps when it is cut."""

AHEAD = 50
"""Rows before and after the visible ones that are asked for along with them."""

MOST_KEPT = 2_000


class TableColumn(NamedTuple):
    """A column: what it is called by the owner and by people, its cells, and where its content stands."""

    key: str
    title: str
    width: int
    right: bool = False
    stretches: bool = False  # takes the room that others leave
    least: int = 0  # cells that it can do with; 0 for its width
    drops: bool = False  # where there is no room its later pieces go, and not the end of the first


class TableRow(NamedTuple):
    """A row. `cells` has an entry a column, each some pieces of safe text; a heading has one entry, for the line."""

    key: str
    cells: tuple[tuple[Piece, ...], ...]
    is_heading: bool = False
    value: object = None  # the owner's value that the row shows


class Placed(NamedTuple):
    """A column that is shown: its number, the cells from the left edge, and its width."""

    number: int
    left: int
    width: int


def place_columns(columns: Sequence[TableColumn], width: int, current: int) -> list[Placed]:
    """The columns that fit into a width: the first one always, then a row of them that holds the current one."""
    if not columns:
        return []
    room = width - MARK_CELLS
    fixed = min(columns[0].width, room)
    first = 1
    while True:
        placed, used = [0], fixed
        for number in range(first, len(columns)):
            least = columns[number].least or columns[number].width
            if used + GAP + least > room:
                break
            placed.append(number)
            used += GAP + least
        if current <= placed[-1] or first >= min(current, len(columns) - 1):
            return _spread(columns, placed, room)
        first += 1


def _spread(columns: Sequence[TableColumn], numbers: Sequence[int], room: int) -> list[Placed]:
    """Give each column its least, then what it would like, then the rest to those that stretch."""
    widths = {number: columns[number].least or columns[number].width for number in numbers}
    widths[numbers[0]] = min(columns[numbers[0]].width, room)
    left_over = room - sum(widths.values()) - GAP * (len(numbers) - 1)
    for number in numbers:
        more = max(0, min(left_over, columns[number].width - widths[number]))
        widths[number] += more
        left_over -= more
    stretching = [number for number in numbers if columns[number].stretches]
    for place, number in enumerate(stretching):
        more = left_over // (len(stretching) - place)
        widths[number] += max(0, more)
        left_over -= max(0, more)
    placed, at = [], MARK_CELLS
    for number in numbers:
        placed.append(Placed(number, at, widths[number]))
        at += widths[number] + GAP
    return placed


class RunTable(Widget, can_focus=True, inherit_bindings=False):
    """A table. `current` is the key of the row under the cursor, "" where that is not known."""

    heading = "In the table"
    DEFAULT_CSS = "RunTable { height: 1fr; }"
    ALLOW_SELECT = False
    BINDINGS = TABLE.bindings + LIST.bindings

    @dataclass(eq=False)
    class RowsWanted(Message):
        """Rows `first` to `first + number - 1` are needed."""

        first: int
        number: int

    class CursorMoved(Message):
        """The cursor is on another row or column."""

    class Chosen(Message):
        """A row was clicked twice."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._columns: Sequence[TableColumn] = ()
        self._sorted = ("", False)
        self.total = 0  # rows, whether or not they were asked for
        self.known: dict[int, TableRow] = {}  # the rows that have come, by their numbers
        self.cursor = 0  # the number of the row under the cursor
        self._marks: Mapping[str, tuple[str, str]] = {}
        self._column = self._top = 0
        self._empty: tuple[str, ...] = ()
        self._asked: tuple[int, int] | None = None

    # --- What is shown

    @property
    def current(self) -> str:
        """The key of the row under the cursor; empty when there is none, or it has not come yet."""
        row = self.known.get(self.cursor)
        return row.key if row is not None else ""

    @property
    def current_value(self) -> object:
        """The owner's value that the row under the cursor shows; None while it is not known."""
        row = self.known.get(self.cursor)
        return row.value if row is not None else None

    @property
    def column(self) -> TableColumn | None:
        """The column under the cursor."""
        return self._columns[self._column] if self._column < len(self._columns) else None

    @property
    def height_of_rows(self) -> int:
        """Rows that fit below the titles."""
        return max(1, self.size.height - 1)

    @property
    def numbers_shown(self) -> range:
        """The numbers of the rows on the screen."""
        return range(self._top, min(self.total, self._top + self.height_of_rows))

    def show_columns(self, columns: Sequence[TableColumn], sorted_by: str, *, descending: bool) -> None:
        """Show these columns, and which of them the rows are sorted by. The cursor stays in its column."""
        before = self.column.key if self.column else ""
        self._columns, self._sorted = columns, (sorted_by, descending)
        keys = [column.key for column in columns]
        self._column = keys.index(before) if before in keys else min(self._column, max(0, len(keys) - 1))
        self.refresh()

    def show_marks(self, marks: Mapping[str, tuple[str, str]]) -> None:
        """The rows that are marked, by key: a glyph of one cell, and its colour (a palette field)."""
        self._marks = marks
        self.refresh()

    def reset(self, *, to_top: bool = True) -> None:
        """The rows are others from now on; those that are shown stay until the new ones come."""
        self._asked = None
        if to_top:
            self.cursor = self._top = 0

    def supply(
        self, total: int, first: int, rows: Sequence[TableRow], *, empty: tuple[str, ...] = (), anew: bool = False
    ) -> None:
        """There are `total` rows, and these from `first` on; `anew` forgets what was there before."""
        before = self.current
        if anew or total != self.total or len(self.known) > MOST_KEPT:
            self.known = {}
        self.known.update(enumerate(rows, first))
        self.total, self._empty = total, empty
        if anew and before and self.cursor:
            self.cursor = next((number for number, row in self.known.items() if row.key == before), self.cursor)
        if anew:
            # An answer that lacks rows is not asked for again: whoever gave it knows no more now.
            self._asked = None
        self.move_to(self.cursor, force=self.current != before)
        self.refresh()

    def window(self) -> tuple[int, int]:
        """The first row that is needed now, and how many: those on the screen and some around them."""
        first = max(0, self._top - AHEAD)
        return first, self._top + self.height_of_rows + AHEAD - first

    def _ask(self) -> None:
        if all(number in self.known for number in self.numbers_shown):
            self._asked = None
            return
        if self._asked == self.window():
            return
        self._asked = self.window()
        self.post_message(self.RowsWanted(*self._asked))

    # --- The cursor

    def move_to(self, number: int, *, force: bool = False) -> None:
        """Put the cursor on the row of this number, or the nearest there is; `force` tells it of the same one, too."""
        number = max(0, min(number, self.total - 1))
        moved = number != self.cursor
        self.cursor = number
        room = self.height_of_rows
        top = min(self._top, number)
        top = max(top, number - room + 1, 0)
        self._top = max(0, min(top, self.total - room))
        self._ask()
        if moved or force:
            self._tell()

    def _tell(self) -> None:
        self.refresh()
        self.refresh_bindings()
        self.post_message(self.CursorMoved())

    def step(self, rows: int) -> None:
        """Move the cursor down by `rows`; up when negative."""
        self.move_to(self.cursor + rows)

    action_step = step

    def action_page(self, pages: int) -> None:
        self.step(pages * max(1, self.height_of_rows - 1))

    def action_end(self, last: bool) -> None:
        self.move_to(self.total - 1 if last else 0)

    def action_column(self, by: int) -> None:
        number = max(0, min(self._column + by, len(self._columns) - 1))
        if number != self._column:
            self._column = number
            self._tell()

    def on_resize(self) -> None:
        self.move_to(self.cursor)

    def on_focus(self) -> None:
        self.refresh()

    on_blur = on_focus

    def on_click(self, event: events.Click) -> None:
        placed = self._placed()
        at = next((place.number for place in placed if place.left <= event.x < place.left + place.width + GAP), None)
        if at is not None:
            self._column = at
        if event.y:
            self.move_to(self._top + event.y - 1, force=True)
            if event.chain > 1 and self.current:
                self.post_message(self.Chosen())
        self.refresh()

    @on(events.MouseScrollDown)
    @on(events.MouseScrollUp)
    def _scrolled(self, event: events.MouseScrollDown | events.MouseScrollUp) -> None:
        event.stop()
        self.step(3 if isinstance(event, events.MouseScrollDown) else -3)

    # --- Drawing

    def _placed(self) -> list[Placed]:
        return place_columns(self._columns, self.size.width - 1, self._column)

    def render_line(self, y: int) -> Strip:
        palette, width = palette_of(self), self.size.width
        if y == 0:
            return draw_line(self._titles(), width, palette, palette.background)
        number = self._top + y - 1
        if number >= self.total:
            text = self._empty[y - 2] if not self.total and 0 <= y - 2 < len(self._empty) else ""
            return draw_line((Piece(f"  {text}", "muted"),), width, palette, palette.background)
        ground = palette.background
        if number == self.cursor:
            ground = palette.selected if self.has_focus else palette.marked
        body = draw_line(self._pieces(self.known.get(number)), width - 1, palette, ground)
        return Strip([*body, Segment(self._thumb(y - 1), style(palette.faint, palette.background))])

    def _titles(self) -> list[Piece]:
        pieces, at = [], 0
        for place in self._placed():
            column = self._columns[place.number]
            arrow = ("▼" if self._sorted[1] else "▲") if column.key == self._sorted[0] else ""
            title = truncate_middle(column.title, place.width - len(arrow))
            # Where values stand at the right, so does the title.
            title = arrow + title if column.right else title + arrow
            here = place.number == self._column and self.has_focus
            piece = Piece(title, "accent" if here or arrow else "muted", bold=here)
            pieces += [Piece(" " * (place.left - at)), *_cell((piece,), place.width, column)]
            at = place.left + place.width
        hidden = len(self._columns) - len(self._placed())
        if hidden > 0 and at + 4 < self.size.width:
            pieces.append(Piece(f"  +{hidden}", "comment"))
        return pieces

    def _pieces(self, row: TableRow | None) -> list[Piece]:
        if row is None:
            return [Piece("  …", "comment")]
        if row.is_heading:
            return [Piece(" "), *row.cells[0]]
        glyph, role = self._marks.get(row.key, (" ", "text"))
        pieces, at = [Piece(f"{glyph} ", role, bold=True)], MARK_CELLS
        for place in self._placed():
            cell = row.cells[place.number] if place.number < len(row.cells) else ()
            pieces += [Piece(" " * (place.left - at)), *_cell(cell, place.width, self._columns[place.number])]
            at = place.left + place.width
        return pieces

    def _thumb(self, line: int) -> str:
        """The scroll bar's cell at a line."""
        room = self.height_of_rows
        size = max(1, room * room // max(1, self.total))
        start = round(self._top / max(1, self.total - room) * (room - size))
        return "┃" if self.total > room and start <= line < start + size else " "


def _cell(pieces: Sequence[Piece], width: int, column: TableColumn) -> list[Piece]:
    """The pieces in exactly `width` cells: the first is cut in its middle, or the later ones go."""
    total = width_of(pieces)
    while total > width and len(pieces) > 1 and (column.drops or total - width_of(pieces[:1]) > width - LEAST_CUT):
        total -= width_of(pieces[-1:])
        pieces = pieces[:-1]
    if total > width and pieces:
        room = width - (total - width_of(pieces[:1]))
        pieces = (pieces[0]._replace(text=truncate_middle(pieces[0].text, room)), *pieces[1:])
    blank = Piece(" " * max(0, width - width_of(pieces)))
    return [blank, *pieces] if column.right else [*pieces, blank]
