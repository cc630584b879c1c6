"""The base of lists and texts with a filter. After `/`, they show only lines that contain all typed words.

The filter is drawn in the last line of the widget itself. The focus does not move, so that no key typed ahead is lost.
"""

from __future__ import annotations

from functools import partial

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui_workbench.ui.commands.available_commands import ExplainsUnavailable
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.themes.themes import Palette, palette_of, style
from tui_workbench.ui.undo import undo_steps
from tui_workbench.ui.widgets.line_buffer import LineBuffer
from tui_workbench.ui.widgets.pieces import draw_typed

NO_MATCH = (f"No matches. {shown_key('list.clear_filter', 'esc')} clears the filter.",)


class Filterable(ExplainsUnavailable, ScrollView, inherit_bindings=False):
    """A scrollable widget with a filter. Subclasses show the lines that `admits` accepts."""

    DEFAULT_CSS = "Filterable { height: 1fr; overflow-x: hidden; scrollbar-size: 1 1; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._buffer: LineBuffer | None = None
        self._is_typing = False
        self._last = ""

    # --- For subclasses

    def counts(self) -> tuple[int, int]:
        """Return the number of shown lines and the number of all lines."""
        raise NotImplementedError

    def filter_changed(self) -> None:
        raise NotImplementedError

    def draw(self, row: int, width: int, palette: Palette) -> Strip:
        raise NotImplementedError

    @property
    def filter_text(self) -> str:
        """The filter, or "" if all lines are shown."""
        return self._buffer.text.strip() if self._buffer is not None else ""

    @property
    def filter_lines(self) -> int:
        """The number of lines that the filter takes at the bottom: 0 or 1."""
        return int(self._buffer is not None)

    def admits(self, text: str) -> bool:
        folded = text.casefold()
        return all(word in folded for word in self.filter_text.casefold().split())

    def fit(self) -> None:
        """Update the scrollable size after a change of the lines."""
        # Without a width, Textual would not scroll.
        self.virtual_size = Size(1, self.counts()[0] + self.filter_lines)
        self.refresh()

    # --- Drawing

    def render_line(self, y: int) -> Strip:
        region, palette = self.scrollable_content_region, palette_of(self)
        if self._buffer is not None and y == region.height - 1:
            return self._filter_strip(self._buffer, region.width, palette)
        return self.draw(y + self.scroll_offset.y, region.width, palette)

    def _filter_strip(self, buffer: LineBuffer, width: int, palette: Palette) -> Strip:
        background = palette.raised
        shown, total = self.counts()
        count = f" {shown:,} of {total:,} "
        room = max(width - cell_len(count) - 2, 1)
        segments = [
            Segment(" /", style(palette.accent, background, bold=True)),
            *draw_typed(buffer, room, palette, has_cursor=self._is_typing),
            Segment(count, style(palette.muted, background)),
        ]
        return Strip(segments).adjust_cell_length(width, style(palette.text, background))

    # --- Commands

    def why_not(self, action: str) -> str:
        if action == "filter" and self._is_typing:
            return "The filter already has the focus."
        if action == "keep_filter" and not self._is_typing:
            return "The filter does not have the focus."
        if action == "clear_filter" and self._buffer is None:
            return "No filter is set."
        return ""

    def action_filter(self) -> None:
        self._filter_with(self._buffer or LineBuffer(self._last), is_typing=True)

    def action_keep_filter(self) -> None:
        self._filter_with(self._buffer if self.filter_text else None)

    def action_clear_filter(self) -> None:
        if self.filter_text:
            self._last = self.filter_text
            undo_steps(self.app).add("clear filter", partial(self._filter_again, self._last))
        self._filter_with(None)

    async def _filter_again(self, text: str) -> None:
        if self.is_attached:
            self._filter_with(LineBuffer(text), is_typing=self._is_typing)

    def _filter_with(self, buffer: LineBuffer | None, *, is_typing: bool = False) -> None:
        self._buffer, self._is_typing = buffer, is_typing
        self.filter_changed()
        self.refresh_bindings()

    # --- Keys

    def check_consume_key(self, key: str, character: str | None) -> bool:
        return self._is_typing and character is not None and character.isprintable()

    async def _on_key(self, event: events.Key) -> None:
        if self._is_typing and self._buffer is not None and self._buffer.press(event.key, event.character):
            event.stop()
            event.prevent_default()
            self._filter_with(self._buffer, is_typing=True)

    def _on_paste(self, event: events.Paste) -> None:
        if self._is_typing and self._buffer is not None:
            event.stop()
            self._buffer.insert(event.text)
            self._filter_with(self._buffer, is_typing=True)
