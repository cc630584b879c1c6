"""The filter of a list: `/` and some words, and only the rows that hold all of them stay.

Every list that is not narrowed by a field of its own has it, and all in the same way. The invariant: the filter is part
of the list itself, in its last line, so that the focus stays where it is and keys that are typed ahead are taken.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.ui.themes import palette_of, style
from tui_workbench.ui.undo import steps_of
from tui_workbench.ui.widgets.line_buffer import LineBuffer

if TYPE_CHECKING:
    from textual import events

NOTHING = ("Nothing holds that; esc shows all.",)


class Filterable(Widget, inherit_bindings=False):
    """What a widget with lines needs to be filtered. Subclasses offer LIST_FILTER and show what `admits` lets through.

    They say how many lines there are and how many are shown, show them anew in `filter_changed`, leave the last of
    their lines to `filter_strip` while there is one (`filter_lines`), and hand it the clicks on it.
    """

    _buffer: LineBuffer | None = None
    _is_typing = False
    _last = ""

    # --- For subclasses

    def counts(self) -> tuple[int, int]:
        """How many lines are shown, and how many there are."""
        raise NotImplementedError

    def filter_changed(self) -> None:
        """Other lines than before are to be shown."""
        raise NotImplementedError

    @property
    def filter_text(self) -> str:
        """What is asked for; empty when all is shown."""
        return self._buffer.text.strip() if self._buffer is not None else ""

    @property
    def filter_lines(self) -> int:
        """How many of the lines at the bottom the filter takes: one or none."""
        return int(self._buffer is not None)

    def admits(self, text: str) -> bool:
        """Whether a line with this text is to be shown."""
        folded = text.casefold()
        return all(word in folded for word in self.filter_text.casefold().split())

    def filter_strip(self, width: int) -> Strip:
        """The line of the filter."""
        assert self._buffer is not None
        palette = palette_of(self)
        ground = palette.raised
        shown, total = self.counts()
        count = f" {shown:,} of {total:,} "
        room = max(width - cell_len(count) - 2, 1)
        text = style(palette.text, palette.selection if self._buffer.is_fresh and self._is_typing else ground)
        window = self._buffer.window(room)
        under = style(palette.background, palette.accent) if self._is_typing else text
        used = cell_len(window.before + window.under + window.after)
        segments = [
            Segment(" /", style(palette.accent, ground, bold=True)),
            Segment(window.before, text),
            Segment(window.under, under),
            Segment(window.after, text),
            Segment(" " * max(room - used, 0), style(palette.text, ground)),
            Segment(count, style(palette.muted, ground)),
        ]
        return Strip(segments).adjust_cell_length(width, style(palette.text, ground))

    # --- Commands

    def filter_reason(self, action: str) -> str:
        """Why one of the filter's commands is not available now."""
        if action == "filter" and self._is_typing:
            return "The filter is being typed."
        if action == "keep_filter" and not self._is_typing:
            return "No filter is being typed."
        if action == "clear_filter" and self._buffer is None:
            return "All rows are shown."
        return ""

    def why_not(self, action: str) -> str:
        """Why a command is not available now."""
        return self.filter_reason(action)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that the filter has no use for now mean what they mean around the list."""
        return not self.why_not(action)

    def action_filter(self) -> None:
        """Type a filter; the one before is brought back by `enter`."""
        if self._buffer is None:
            self._buffer = LineBuffer(self._last)
        self._is_typing = True
        self._changed()

    def action_keep_filter(self) -> None:
        """Back to the rows that are left."""
        self._is_typing = False
        if not self.filter_text:
            self._buffer = None
        self._changed()

    def action_clear_filter(self) -> None:
        """Show all; undo brings the filter back."""
        if self.filter_text:
            self._last = self.filter_text
            steps_of(self.app).add("the end of a filter", partial(self._filter_again, self._last))
        self._buffer, self._is_typing = None, False
        self._changed()

    async def _filter_again(self, text: str) -> None:
        if self.is_attached:
            self._buffer = LineBuffer(text)
            self._changed()

    def _changed(self) -> None:
        self.filter_changed()
        self.refresh_bindings()

    # --- Keys

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Letters belong to the filter while it is typed."""
        return self._is_typing and character is not None and character.isprintable()

    async def _on_key(self, event: events.Key) -> None:
        if not self._is_typing or self._buffer is None or not self._buffer.press(event.key, event.character):
            return
        event.stop()
        event.prevent_default()
        self._changed()

    def _on_paste(self, event: events.Paste) -> None:
        if self._is_typing and self._buffer is not None:
            event.stop()
            self._buffer.insert(event.text)
            self._changed()
