"""A list of one-line rows with a cursor, for files, targets, runs and choices.

The owner sets the rows with `show_rows`. The cursor stays on the key of its row when other rows are added or removed.
Only visible lines are drawn.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.geometry import Offset
from textual.message import Message
from textual.strip import Strip

from tui_workbench.ui.commands.main_commands import LIST, LIST_FILTER
from tui_workbench.ui.terminal.textual_internals import set_bindings
from tui_workbench.ui.themes.themes import Palette, style
from tui_workbench.ui.widgets.filterable import NO_MATCH, Filterable
from tui_workbench.ui.widgets.pieces import Piece, Row, draw_line, draw_row


class RowList(Filterable, can_focus=True, inherit_bindings=False):
    """A list of rows with a cursor and an optional filter."""

    heading = "In the list"
    ALLOW_SELECT = False
    BINDINGS = LIST.bindings

    @dataclass(eq=False)
    class CursorMoved(Message):
        """Posted when another row is selected by the user or the owner, or because the selected row was removed."""

        row_list: RowList
        key: str

        @property
        def control(self) -> RowList:
            return self.row_list

    @dataclass(eq=False)
    class Clicked(CursorMoved):
        """Posted after a click has selected a row. `count` is 2 for a double click."""

        count: int

    def __init__(self, *, has_filter: bool = False) -> None:
        """If `has_filter`, `/` filters the rows."""
        super().__init__()
        if has_filter:
            set_bindings(self, LIST_FILTER.bindings + LIST.bindings)
        self._pressed_at: Offset | None = None
        self.all_rows: Sequence[Row] = ()
        self._rows: Sequence[Row] = ()
        self._cursor = 0
        self._empty: tuple[str, ...] = ()

    @property
    def rows(self) -> Sequence[Row]:
        """The rows that match the filter."""
        return self._rows

    @property
    def current(self) -> str:
        """The key of the row under the cursor; "" in an empty list."""
        return self._rows[self._cursor].key if self._rows else ""

    def show_rows(self, rows: Sequence[Row], *, empty: tuple[str, ...] = (), current: str | None = None) -> None:
        """Show the rows that match the filter; without rows, show the lines of `empty`.

        The cursor moves to the key `current`. If `current` is None, the cursor stays on its key, or at its index if
        no row has the key.
        """
        if rows != self.all_rows or empty != self._empty or current not in (None, self.current):
            self.all_rows, self._empty = rows, empty
            self._show(self.current if current is None else current)

    def filter_changed(self) -> None:
        self._show(self.current)

    def _show(self, key: str) -> None:
        before = self.current
        self._rows = [row for row in self.all_rows if self.admits(row.text)] if self.filter_text else self.all_rows
        cursor = self._cursor
        if cursor >= len(self._rows) or self._rows[cursor].key != key:
            cursor = next((index for index, row in enumerate(self._rows) if row.key == key), cursor)
        self._cursor = min(cursor, max(0, len(self._rows) - 1))
        self.fit()
        if self.is_mounted:
            self._reveal()
        if self.current != before:
            self.post_message(self.CursorMoved(self, self.current))

    def counts(self) -> tuple[int, int]:
        return len(self._rows), len(self.all_rows)

    def move_to(self, index: int) -> None:
        """Move the cursor to the row with this index, or to the nearest row."""
        index = max(0, min(index, len(self._rows) - 1))
        if not self._rows or index == self._cursor:
            return
        self.refresh_line(self._cursor)
        self._cursor = index
        self.refresh_line(index)
        self._reveal()
        self.post_message(self.CursorMoved(self, self.current))

    def step(self, rows: int) -> None:
        """Move the cursor down by `rows`, or up if negative."""
        self.move_to(self._cursor + rows)

    def _reveal(self) -> None:
        height = max(0, self.scrollable_content_region.height - self.filter_lines)
        top = self.scroll_offset.y
        if height and not top <= self._cursor < top + height:
            target = self._cursor if self._cursor < top else self._cursor - height + 1
            # Scrolling is forced, because the scroll bar appears after the new rows.
            self.scroll_to(y=target, animate=False, force=True)

    def action_step(self, rows: int) -> None:
        self.step(rows)

    def action_page(self, pages: int) -> None:
        self.step(pages * max(1, self.size.height - 1))

    def action_end(self, last: bool) -> None:
        self.move_to(len(self._rows) - 1 if last else 0)

    def on_focus(self) -> None:
        self.refresh_line(self._cursor)

    def on_blur(self) -> None:
        self.refresh_line(self._cursor)

    def on_resize(self) -> None:
        self._reveal()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._pressed_at = event.screen_offset  # distinguishes a click from a drag

    def on_click(self, event: events.Click) -> None:
        index = event.y + self.scroll_offset.y
        if self.filter_lines and event.y == self.size.height - 1:
            self.action_filter()
        elif 0 <= index < len(self._rows) and self._pressed_at in (None, event.screen_offset):
            self.move_to(index)
            self.post_message(self.Clicked(self, self.current, event.chain))

    def draw(self, row: int, width: int, palette: Palette) -> Strip:
        if not self._rows:
            lines = NO_MATCH if self.filter_text else self._empty
            empty = [part for line in lines for part in textwrap.wrap(line, max(8, width - 2)) or [""]]
            text = f" {empty[row]}" if row < len(empty) else ""
            return draw_line([Piece(text, "muted")], width, palette, palette.background)
        if row >= len(self._rows):
            return Strip.blank(width, style(palette.text, palette.background))
        if row != self._cursor:
            return draw_row(self._rows[row], width, palette, palette.background)
        background = palette.selected if self.has_focus else palette.marked
        return draw_row(self._rows[row], width, palette, background, plain=self.has_focus)
