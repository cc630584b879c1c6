"""A list of one-line rows with a cursor: files, targets, runs and choices are all shown by it.

The rows are values that the owner hands down (`show_rows`); the list keeps nothing about them but which one is under
the cursor, by its key, so that the cursor stays on its row when rows come and go around it. Only the lines on the
screen are ever drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui_workbench.ui.commands import LIST, bindings
from tui_workbench.ui.themes import palette_of, style
from tui_workbench.ui.widgets.pieces import Row, draw_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.binding import BindingType

    from tui_workbench.ui.themes import Palette


class RowList(ScrollView, can_focus=True, inherit_bindings=False):
    """A list of rows. The row under the cursor is `current`, the key of it, or an empty string in an empty list."""

    DEFAULT_CSS = """
    RowList { height: 1fr; overflow-x: hidden; scrollbar-size: 1 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings(LIST)

    class CursorMoved(Message):
        """The cursor stands on another row than before, by a key, the mouse, or because its row has gone."""

        def __init__(self, row_list: RowList, key: str) -> None:
            super().__init__()
            self.row_list = row_list
            self.key = key

        @property
        def control(self) -> RowList:
            """The list, for `@on` selectors."""
            return self.row_list

    class Clicked(CursorMoved):
        """A row was clicked; `count` is 2 for a double click. The cursor already stands on it."""

        def __init__(self, row_list: RowList, key: str, count: int) -> None:
            super().__init__(row_list, key)
            self.count = count

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: Sequence[Row] = ()
        self._cursor = 0
        self._empty: tuple[str, ...] = ()

    @property
    def rows(self) -> Sequence[Row]:
        """The rows as last handed down."""
        return self._rows

    @property
    def current(self) -> str:
        """The key of the row under the cursor; empty in an empty list."""
        return self._rows[self._cursor].key if self._rows else ""

    def show_rows(self, rows: Sequence[Row], *, empty: tuple[str, ...] = (), current: str | None = None) -> None:
        """Show these rows, or the lines of `empty` when there are none.

        The cursor goes to the row `current` when that is given, else it stays on its row; when that has gone it stays
        at its place.
        """
        before = self.current
        wanted = before if current is None else current
        if rows == self._rows and empty == self._empty and wanted == before:
            return
        self._rows = rows
        self._empty = empty
        self._cursor = min(self._index_of(wanted, self._cursor), max(0, len(rows) - 1))
        self.fit()
        if self.current != before:
            self.post_message(self.CursorMoved(self, self.current))

    @property
    def footing(self) -> int:
        """How many of the lines at the bottom are no rows."""
        return 0

    def fit(self) -> None:
        """There are other rows, or there is other room for them."""
        # A size without a width would be no size, and could not be scrolled.
        self.virtual_size = Size(1, len(self._rows) + self.footing)
        self.refresh()
        if self.is_mounted:
            self._reveal()

    def _index_of(self, key: str, default: int) -> int:
        if default < len(self._rows) and self._rows[default].key == key:
            return default
        return next((index for index, row in enumerate(self._rows) if row.key == key), default)

    def move_to(self, index: int) -> None:
        """Put the cursor on the row with this index, or the nearest there is."""
        index = max(0, min(index, len(self._rows) - 1))
        if not self._rows or index == self._cursor:
            return
        self.refresh_line(self._cursor)
        self._cursor = index
        self.refresh_line(index)
        self._reveal()
        self.post_message(self.CursorMoved(self, self.current))

    def step(self, rows: int) -> None:
        """Move the cursor down by so many rows; up when negative."""
        self.move_to(self._cursor + rows)

    def _reveal(self) -> None:
        """Scroll as little as shows the cursor."""
        height = max(0, self.scrollable_content_region.height - self.footing)
        top = self.scroll_offset.y
        if height and not top <= self._cursor < top + height:
            target = self._cursor if self._cursor < top else self._cursor - height + 1
            # Forced, because new rows are there a moment before the scroll bar that allows it.
            self.scroll_to(y=target, animate=False, force=True)

    def action_cursor_up(self) -> None:
        """A row up."""
        self.move_to(self._cursor - 1)

    def action_cursor_down(self) -> None:
        """A row down."""
        self.move_to(self._cursor + 1)

    def action_page_up(self) -> None:
        """A page up."""
        self.move_to(self._cursor - max(1, self.size.height - 1))

    def action_page_down(self) -> None:
        """A page down."""
        self.move_to(self._cursor + max(1, self.size.height - 1))

    def action_first(self) -> None:
        """To the first row."""
        self.move_to(0)

    def action_last(self) -> None:
        """To the last row."""
        self.move_to(len(self._rows) - 1)

    def on_focus(self) -> None:
        """The cursor is drawn differently where the focus is."""
        self.refresh_line(self._cursor)

    def on_blur(self) -> None:
        """The cursor is drawn differently where the focus is not."""
        self.refresh_line(self._cursor)

    def on_resize(self) -> None:
        """The cursor stays in sight."""
        self._reveal()

    def on_click(self, event: events.Click) -> None:
        """A click puts the cursor on its row and tells the owner."""
        index = event.y + self.scroll_offset.y
        if 0 <= index < len(self._rows):
            self.move_to(index)
            self.post_message(self.Clicked(self, self.current, event.chain))

    def render_line(self, y: int) -> Strip:
        """One line of the list as it stands on the screen."""
        width = self.scrollable_content_region.width
        index = y + self.scroll_offset.y
        palette = palette_of(self)
        if not self._rows:
            return self._empty_line(y, width, palette)
        if index >= len(self._rows):
            return Strip.blank(width, style(palette.text, palette.background))
        under_cursor = index == self._cursor
        ground = palette.background
        if under_cursor:
            ground = palette.selected if self.has_focus else palette.marked
        return draw_row(self._rows[index], width, palette, ground, plain=under_cursor and self.has_focus)

    def _empty_line(self, y: int, width: int, palette: Palette) -> Strip:
        lines = _wrapped(self._empty, width - 2)
        text = f" {lines[y]}" if y < len(lines) else ""
        return Strip([Segment(text, style(palette.muted, palette.background))]).adjust_cell_length(
            width, style(palette.text, palette.background)
        )


def _wrapped(lines: tuple[str, ...], width: int) -> list[str]:
    import textwrap

    return [part for line in lines for part in (textwrap.wrap(line, max(8, width)) or [""])]
