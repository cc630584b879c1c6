"""A table of any length with a cursor: only the rows on the screen are ever asked for, kept or drawn.

The rows are values that the owner hands down for the places that `RowsWanted` names. The cursor is on a row and on a
column; it stays on its row by the row's key when other rows come around it. The invariant: nothing takes longer because
the table is longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.ui.commands import LIST, bindings
from tui_workbench.ui.history_commands import TABLE
from tui_workbench.ui.safetext import truncate_middle
from tui_workbench.ui.themes import palette_of, style
from tui_workbench.ui.widgets.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual import events
    from textual.binding import BindingType

    from tui_workbench.ui.themes import Palette

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

    DEFAULT_CSS = "RunTable { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings(TABLE, LIST)

    class RowsWanted(Message):
        """Rows `first` to `first + number - 1` are needed."""

        def __init__(self, table: RunTable, first: int, number: int) -> None:
            super().__init__()
            self.table, self.first, self.number = table, first, number

    class CursorMoved(Message):
        """The cursor is on another row or column."""

        def __init__(self, table: RunTable) -> None:
            super().__init__()
            self.table = table

    class Chosen(Message):
        """A row was clicked twice."""

        def __init__(self, table: RunTable) -> None:
            super().__init__()
            self.table = table

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._columns: Sequence[TableColumn] = ()
        self._sorted = ("", False)
        self._total = 0
        self._rows: dict[int, TableRow] = {}
        self._marks: Mapping[str, tuple[str, str]] = {}
        self._cursor = self._column = self._top = 0
        self._empty: tuple[str, ...] = ()
        self._asked: tuple[int, int] | None = None

    # --- What is shown

    @property
    def total(self) -> int:
        """The number of rows, whether or not they were asked for."""
        return self._total

    @property
    def cursor(self) -> int:
        """The number of the row under the cursor."""
        return self._cursor

    @property
    def current(self) -> str:
        """The key of the row under the cursor; empty when there is none, or it has not come yet."""
        row = self._rows.get(self._cursor)
        return row.key if row is not None else ""

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
        return range(self._top, min(self._total, self._top + self.height_of_rows))

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
            self._cursor = self._top = 0

    def supply(
        self, total: int, first: int, rows: Sequence[TableRow], *, empty: tuple[str, ...] = (), anew: bool = False
    ) -> None:
        """There are `total` rows, and these from `first` on; `anew` forgets what was there before."""
        before = self.current
        if anew or total != self._total or len(self._rows) > MOST_KEPT:
            self._rows = {}
        self._rows.update(enumerate(rows, first))
        self._total, self._empty = total, empty
        if anew and before and self._cursor:
            self._cursor = next((number for number, row in self._rows.items() if row.key == before), self._cursor)
        if anew:
            # An answer that lacks rows is not asked for again: whoever gave it knows no more now.
            self._asked = None
        self._go(self._cursor, force=self.current != before)
        self.refresh()

    def window(self) -> tuple[int, int]:
        """The first row that is needed now, and how many: those on the screen and some around them."""
        first = max(0, self._top - AHEAD)
        return first, self._top + self.height_of_rows + AHEAD - first

    def _ask(self) -> None:
        if all(number in self._rows for number in self.numbers_shown):
            self._asked = None
            return
        if self._asked == self.window():
            return
        self._asked = self.window()
        self.post_message(self.RowsWanted(self, *self._asked))

    # --- The cursor

    def _go(self, number: int, *, force: bool = False) -> None:
        number = max(0, min(number, self._total - 1))
        moved = number != self._cursor
        self._cursor = number
        room = self.height_of_rows
        top = min(self._top, number)
        top = max(top, number - room + 1, 0)
        self._top = max(0, min(top, self._total - room))
        self._ask()
        if moved or force:
            self.refresh()
            self.post_message(self.CursorMoved(self))

    def move_to(self, number: int) -> None:
        """Put the cursor on the row of this number, or the nearest there is."""
        self._go(number)

    def action_cursor_up(self) -> None:
        """A row up."""
        self._go(self._cursor - 1)

    def action_cursor_down(self) -> None:
        """A row down."""
        self._go(self._cursor + 1)

    def action_page_up(self) -> None:
        """A page up."""
        self._go(self._cursor - max(1, self.height_of_rows - 1))

    def action_page_down(self) -> None:
        """A page down."""
        self._go(self._cursor + max(1, self.height_of_rows - 1))

    def action_first(self) -> None:
        """To the first row."""
        self._go(0)

    def action_last(self) -> None:
        """To the last row."""
        self._go(self._total - 1)

    def action_column(self, by: int) -> None:
        """To a neighbouring column."""
        number = max(0, min(self._column + by, len(self._columns) - 1))
        if number != self._column:
            self._column = number
            self.refresh()
            self.post_message(self.CursorMoved(self))

    def on_resize(self) -> None:
        """The cursor stays in sight."""
        self._go(self._cursor)

    def on_focus(self) -> None:
        """The cursor is drawn differently where the focus is."""
        self.refresh()

    def on_blur(self) -> None:
        """The cursor is drawn differently where the focus is not."""
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """A click puts the cursor on its row, or on the column of a title."""
        placed = self._placed()
        at = next((place.number for place in placed if place.left <= event.x < place.left + place.width + GAP), None)
        if at is not None:
            self._column = at
        if event.y:
            self._go(self._top + event.y - 1, force=True)
            if event.chain > 1 and self.current:
                self.post_message(self.Chosen(self))
        self.refresh()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel moves the cursor, which takes the rows along."""
        event.stop()
        self._go(self._cursor + 3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel moves the cursor, which takes the rows along."""
        event.stop()
        self._go(self._cursor - 3)

    # --- Drawing

    def _placed(self) -> list[Placed]:
        return place_columns(self._columns, self.size.width - 1, self._column)

    def render_line(self, y: int) -> Strip:
        """One line as it stands on the screen."""
        palette = palette_of(self)
        width = self.size.width
        if y == 0:
            return self._titles(palette).adjust_cell_length(width, style(palette.text, palette.background))
        number = self._top + y - 1
        if number >= self._total:
            text = self._empty[y - 2] if not self._total and 0 <= y - 2 < len(self._empty) else ""
            line = Strip([Segment(f"  {text}", style(palette.muted, palette.background))])
            return line.adjust_cell_length(width, style(palette.text, palette.background))
        ground = palette.background
        if number == self._cursor:
            ground = palette.selected if self.has_focus else palette.marked
        strip = self._row(self._rows.get(number), palette, ground)
        body = strip.adjust_cell_length(width - 1, style(palette.text, ground))
        return Strip([*body, self._thumb(y - 1, palette)])

    def _titles(self, palette: Palette) -> Strip:
        segments, at = [], 0
        for place in self._placed():
            column = self._columns[place.number]
            arrow = ("▼" if self._sorted[1] else "▲") if column.key == self._sorted[0] else ""
            title = truncate_middle(column.title, place.width - len(arrow)) + arrow
            text = _aligned(title, place.width, right=column.right)
            here = place.number == self._column and self.has_focus
            ink = style(palette.accent if here or arrow else palette.muted, palette.background, bold=here)
            segments += [Segment(" " * (place.left - at), style(palette.text, palette.background)), Segment(text, ink)]
            at = place.left + place.width
        hidden = len(self._columns) - len(self._placed())
        if hidden > 0 and at + 4 < self.size.width:
            segments.append(Segment(f"  +{hidden}", style(palette.comment, palette.background)))
        return Strip(segments)

    def _row(self, row: TableRow | None, palette: Palette, ground: str) -> Strip:
        if row is None:
            return Strip([Segment("  …", style(palette.comment, ground))])
        if row.is_heading:
            pieces = [Segment(" ", style(palette.text, ground)), *_drawn(row.cells[0], palette, ground)]
            return Strip(pieces)
        glyph, role = self._marks.get(row.key, (" ", "text"))
        segments = [Segment(f"{glyph} ", style(getattr(palette, role), ground, bold=True))]
        at = MARK_CELLS
        for place in self._placed():
            segments.append(Segment(" " * (place.left - at), style(palette.text, ground)))
            cell = row.cells[place.number] if place.number < len(row.cells) else ()
            segments += _cell(cell, place.width, palette, ground, self._columns[place.number])
            at = place.left + place.width
        return Strip(segments)

    def _thumb(self, line: int, palette: Palette) -> Segment:
        """The scroll bar's cell at a line."""
        room = self.height_of_rows
        if self._total <= room:
            return Segment(" ", style(palette.text, palette.background))
        size = max(1, room * room // self._total)
        start = round(self._top / max(1, self._total - room) * (room - size))
        on = start <= line < start + size
        return Segment("┃" if on else " ", style(palette.faint, palette.background))


def _cell(pieces: Sequence[Piece], width: int, palette: Palette, ground: str, column: TableColumn) -> list[Segment]:
    """The pieces in exactly `width` cells: the first is cut in its middle, or the later ones go."""
    total = sum(cell_len(piece.text) for piece in pieces)
    while total > width and len(pieces) > 1 and (column.drops or total - cell_len(pieces[0].text) > width - LEAST_CUT):
        total -= cell_len(pieces[-1].text)
        pieces = pieces[:-1]
    if total > width and pieces:
        room = width - (total - cell_len(pieces[0].text))
        pieces = (pieces[0]._replace(text=truncate_middle(pieces[0].text, room)), *pieces[1:])
        total = sum(cell_len(piece.text) for piece in pieces)
    blank = Segment(" " * max(0, width - total), style(palette.text, ground))
    drawn = _drawn(pieces, palette, ground)
    return [blank, *drawn] if column.right else [*drawn, blank]


def _drawn(pieces: Sequence[Piece], palette: Palette, ground: str) -> list[Segment]:
    return [Segment(piece.text, style(getattr(palette, piece.role), ground, bold=piece.bold)) for piece in pieces]


def _aligned(text: str, width: int, *, right: bool) -> str:
    return f"{' ' * (width - cell_len(text))}{text}" if right else set_cell_size(text, width)
