"""A list of one-line rows with a cursor: files, targets, runs and choices are all shown by it.

The rows are values that the owner hands down (`show_rows`); the list keeps nothing about them but which one is under
the cursor, by its key, so that the cursor stays on its row when rows come and go around it. Only the lines on the
screen are ever drawn.
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
from tui_workbench.ui.widgets.filterable import NOTHING, Filterable
from tui_workbench.ui.widgets.pieces import Piece, Row, draw_line, draw_row


class RowList(Filterable, can_focus=True, inherit_bindings=False):
    """A list of rows. The row under the cursor is `current`, the key of it, or an empty string in an empty list."""

    heading = "In the list"
    ALLOW_SELECT = False
    BINDINGS = LIST.bindings

    @dataclass(eq=False)
    class CursorMoved(Message):
        """The cursor stands on another row than before, by a key, the mouse, or because its row has gone."""

        row_list: RowList
        key: str

        @property
        def control(self) -> RowList:
            return self.row_list

    @dataclass(eq=False)
    class Clicked(CursorMoved):
        """A row was clicked; `count` is 2 for a double click. The cursor already stands on it."""

        count: int

    def __init__(self, *, has_filter: bool = False) -> None:
        """With `has_filter`, `/` filters the rows."""
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
        """The rows that the filter lets through."""
        return self._rows

    @property
    def current(self) -> str:
        """The key of the row under the cursor; empty in an empty list."""
        return self._rows[self._cursor].key if self._rows else ""

    def show_rows(self, rows: Sequence[Row], *, empty: tuple[str, ...] = (), current: str | None = None) -> None:
        """Show those of these rows that the filter lets through, or the lines of `empty` when there are none at all.

        The cursor goes to the row `current` when that is given, else it stays on its row; when that has gone it stays
        at its place.
        """
        if rows != self.all_rows or empty != self._empty or current not in (None, self.current):
            self.all_rows, self._empty = rows, empty
            self._show(self.current if current is None else current)

    def filter_changed(self) -> None:
        self._show(self.current)

    def _show(self, wanted: str) -> None:
        before = self.current
        self._rows = [row for row in self.all_rows if self.admits(row.text)] if self.filter_text else self.all_rows
        self._cursor = min(self._index_of(wanted, self._cursor), max(0, len(self._rows) - 1))
        self.fit()
        if self.is_mounted:
            self._reveal()
        if self.current != before:
            self.post_message(self.CursorMoved(self, self.current))

    def counts(self) -> tuple[int, int]:
        return len(self._rows), len(self.all_rows)

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
        height = max(0, self.scrollable_content_region.height - self.filter_lines)
        top = self.scroll_offset.y
        if height and not top <= self._cursor < top + height:
            target = self._cursor if self._cursor < top else self._cursor - height + 1
            # Forced, because new rows are there a moment before the scroll bar that allows it.
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
        """Remember the place: a press that is dragged elsewhere is not a click."""
        self._pressed_at = event.screen_offset

    def on_click(self, event: events.Click) -> None:
        index = event.y + self.scroll_offset.y
        if self.filter_lines and event.y == self.size.height - 1:
            self.action_filter()
        elif 0 <= index < len(self._rows) and self._pressed_at in (None, event.screen_offset):
            self.move_to(index)
            self.post_message(self.Clicked(self, self.current, event.chain))

    def draw(self, row: int, width: int, palette: Palette) -> Strip:
        if not self._rows:
            empty = [part for line in (NOTHING if self.filter_text else self._empty) for part in _wrapped(line, width)]
            text = f" {empty[row]}" if row < len(empty) else ""
            return draw_line([Piece(text, "muted")], width, palette, palette.background)
        if row >= len(self._rows):
            return Strip.blank(width, style(palette.text, palette.background))
        if row != self._cursor:
            return draw_row(self._rows[row], width, palette, palette.background)
        ground = palette.selected if self.has_focus else palette.marked
        return draw_row(self._rows[row], width, palette, ground, plain=self.has_focus)


def _wrapped(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, max(8, width - 2)) or [""]
