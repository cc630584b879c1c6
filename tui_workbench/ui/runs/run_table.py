"""A table with a cursor and any number of rows. It requests only rows in and near the visible part.

The owner answers `RowsWanted` with `set_rows`. The cursor is on a row and a column; it stays on its row, by key, when
rows around it change. The duration of an operation does not depend on the length of the table.
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

GAP = 2  # cells between two columns
MARK_CELLS = 2
LEAST_CUT = 5  # minimum cells of the first piece of a cell that is cut
AHEAD = 50  # number of rows before and after the visible rows that are also requested
MOST_KEPT = 2_000


class TableColumn(NamedTuple):
    """A column of the table."""

    key: str
    title: str
    width: int
    right: bool = False  # True if the cells are right-aligned
    stretches: bool = False  # True if the column takes the remaining room
    least: int = 0  # minimum width; 0 for `width`
    drops: bool = False  # True if later pieces of a long cell are dropped before the first piece is cut


class TableRow(NamedTuple):
    """A row. `cells` has an entry of safe text for each column; a heading has one entry for the whole line."""

    key: str
    cells: tuple[tuple[Piece, ...], ...]
    is_heading: bool = False
    value: object = None  # a value for the owner, such as the run


class VisibleColumn(NamedTuple):
    """A visible column: its number, its distance from the left edge, and its width."""

    number: int
    left: int
    width: int


def place_columns(columns: Sequence[TableColumn], width: int, current: int) -> list[VisibleColumn]:
    """Choose the columns that fit: the first column, and a range of columns that contains the current column."""
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
        # Columns after the first column are left out from the left, until the current column fits.
        if current <= placed[-1] or first >= min(current, len(columns) - 1):
            return _spread(columns, placed, room)
        first += 1


def _spread(columns: Sequence[TableColumn], numbers: Sequence[int], room: int) -> list[VisibleColumn]:
    """Give each column its minimum width, then its preferred width, and the rest to the columns that stretch."""
    widths = {number: columns[number].least or columns[number].width for number in numbers}
    widths[numbers[0]] = min(columns[numbers[0]].width, room)
    left_over = room - sum(widths.values()) - GAP * (len(numbers) - 1)
    for number in numbers:
        more = max(0, min(left_over, columns[number].width - widths[number]))
        widths[number] += more
        left_over -= more
    stretching = [number for number in numbers if columns[number].stretches]
    for index, number in enumerate(stretching):
        more = left_over // (len(stretching) - index)
        widths[number] += max(0, more)
        left_over -= max(0, more)
    placed, at = [], MARK_CELLS
    for number in numbers:
        placed.append(VisibleColumn(number, at, widths[number]))
        at += widths[number] + GAP
    return placed


class RunTable(Widget, can_focus=True, inherit_bindings=False):
    """A table of runs or other rows."""

    heading = "In the table"
    DEFAULT_CSS = "RunTable { height: 1fr; }"
    ALLOW_SELECT = False
    BINDINGS = TABLE.bindings + LIST.bindings

    @dataclass(eq=False)
    class RowsWanted(Message):
        """Posted when the rows `first` to `first + number - 1` are needed."""

        first: int
        number: int

    class CursorMoved(Message):
        """Posted when the cursor moves, a row is clicked, or another row is set at the cursor."""

    class Chosen(Message):
        """Posted when a row is double-clicked."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._columns: Sequence[TableColumn] = ()
        self._sorted = ("", False)
        self.total = 0  # number of all rows
        self.loaded: dict[int, TableRow] = {}  # the received rows by number
        self.cursor = 0  # the number of the row under the cursor
        self._marks: Mapping[str, tuple[str, str]] = {}
        self._column = self._top = 0
        self._empty: tuple[str, ...] = ()
        self._asked: tuple[int, int] | None = None

    # --- Content

    @property
    def current(self) -> str:
        """The key of the selected row; "" for an empty table or while the row is not known."""
        row = self.loaded.get(self.cursor)
        return row.key if row is not None else ""

    @property
    def current_value(self) -> object:
        """The owner's value of the selected row; None while the row is not known."""
        row = self.loaded.get(self.cursor)
        return row.value if row is not None else None

    @property
    def column(self) -> TableColumn | None:
        return self._columns[self._column] if self._column < len(self._columns) else None

    @property
    def height_of_rows(self) -> int:
        """The number of rows that fit below the titles."""
        return max(1, self.size.height - 1)

    @property
    def numbers_shown(self) -> range:
        return range(self._top, min(self.total, self._top + self.height_of_rows))

    def show_columns(self, columns: Sequence[TableColumn], sorted_by: str, *, descending: bool) -> None:
        """Show these columns. The cursor stays in its column if the column is still shown."""
        before = self.column.key if self.column else ""
        self._columns, self._sorted = columns, (sorted_by, descending)
        keys = [column.key for column in columns]
        self._column = keys.index(before) if before in keys else min(self._column, max(0, len(keys) - 1))
        self.refresh()

    def show_marks(self, marks: Mapping[str, tuple[str, str]]) -> None:
        """Set the marks of rows by row key: a glyph of one cell, and its color (a palette field)."""
        self._marks = marks
        self.refresh()

    def reset(self) -> None:
        """Move to the top. The current rows stay until other rows are set."""
        self._asked = None
        self.cursor = self._top = 0

    def set_rows(
        self, total: int, first: int, rows: Sequence[TableRow], *, empty: tuple[str, ...] = (), replace: bool = False
    ) -> None:
        """Set the rows from number `first` on, of `total` rows.

        Earlier rows are discarded if `replace` is True, if the total has changed, or if too many rows are kept.
        """
        before = self.current
        if replace or total != self.total or len(self.loaded) > MOST_KEPT:
            self.loaded = {}
        self.loaded.update(enumerate(rows, first))
        self.total, self._empty = total, empty
        if replace and before and self.cursor:
            self.cursor = next((number for number, row in self.loaded.items() if row.key == before), self.cursor)
        if replace:
            self._asked = None  # only here, so that rows that the owner does not provide are not requested forever
        self.move_to(self.cursor, force=self.current != before)
        self.refresh()

    def window(self) -> tuple[int, int]:
        """Return the number of the first row that is needed now, and how many rows are needed."""
        first = max(0, self._top - AHEAD)
        return first, self._top + self.height_of_rows + AHEAD - first

    # --- The cursor

    def move_to(self, number: int, *, force: bool = False) -> None:
        """Move the cursor to the row with this number, or to the nearest row. `force` always posts `CursorMoved`."""
        number = max(0, min(number, self.total - 1))
        moved = number != self.cursor
        self.cursor = number
        room = self.height_of_rows
        top = min(self._top, number)
        top = max(top, number - room + 1, 0)
        self._top = max(0, min(top, self.total - room))
        if all(shown in self.loaded for shown in self.numbers_shown):
            self._asked = None
        elif self._asked != self.window():
            self._asked = self.window()
            self.post_message(self.RowsWanted(*self._asked))
        if moved or force:
            self._cursor_moved()

    def _cursor_moved(self) -> None:
        self.refresh()
        self.refresh_bindings()
        self.post_message(self.CursorMoved())

    def step(self, rows: int) -> None:
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
            self._cursor_moved()

    def on_resize(self) -> None:
        self.move_to(self.cursor)

    def on_focus(self) -> None:
        self.refresh()

    on_blur = on_focus

    def on_click(self, event: events.Click) -> None:
        for visible in self._visible_columns():
            if visible.left <= event.x < visible.left + visible.width + GAP:
                self._column = visible.number
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

    def _visible_columns(self) -> list[VisibleColumn]:
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
        body = draw_line(self._pieces(self.loaded.get(number)), width - 1, palette, ground)
        room = self.height_of_rows
        thumb = max(1, room * room // max(1, self.total))
        start = round(self._top / max(1, self.total - room) * (room - thumb))
        scroll_bar = "┃" if self.total > room and start <= y - 1 < start + thumb else " "
        return Strip([*body, Segment(scroll_bar, style(palette.faint, palette.background))])

    def _titles(self) -> list[Piece]:
        pieces, at = [], 0
        for visible in self._visible_columns():
            column = self._columns[visible.number]
            arrow = ("▼" if self._sorted[1] else "▲") if column.key == self._sorted[0] else ""
            title = truncate_middle(column.title, visible.width - len(arrow))
            # The arrow is on the inner side of a right-aligned title.
            title = arrow + title if column.right else title + arrow
            is_current = visible.number == self._column and self.has_focus
            piece = Piece(title, "accent" if is_current or arrow else "muted", bold=is_current)
            pieces += [Piece(" " * (visible.left - at)), *_cell((piece,), visible.width, column)]
            at = visible.left + visible.width
        hidden = len(self._columns) - len(self._visible_columns())
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
        for visible in self._visible_columns():
            cell = row.cells[visible.number] if visible.number < len(row.cells) else ()
            pieces += [Piece(" " * (visible.left - at)), *_cell(cell, visible.width, self._columns[visible.number])]
            at = visible.left + visible.width
        return pieces


def _cell(pieces: Sequence[Piece], width: int, column: TableColumn) -> list[Piece]:
    """Fit the pieces into exactly `width` cells: drop later pieces, shorten the first, and add blanks as needed."""
    total = width_of(pieces)
    while total > width and len(pieces) > 1 and (column.drops or total - width_of(pieces[:1]) > width - LEAST_CUT):
        total -= width_of(pieces[-1:])
        pieces = pieces[:-1]
    if total > width and pieces:
        room = width - (total - width_of(pieces[:1]))
        pieces = (pieces[0]._replace(text=truncate_middle(pieces[0].text, room)), *pieces[1:])
    blank = Piece(" " * max(0, width - width_of(pieces)))
    return [blank, *pieces] if column.right else [*pieces, blank]
