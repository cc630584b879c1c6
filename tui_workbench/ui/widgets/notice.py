"""What is said in passing, and what is wrong, in the lines under the run bar; no window opens for either.

Something passing takes one line and is cut to it. An error is never cut, and neither is a text that stands: what was
found out once, and is true for as long as the project is open.
"""

from __future__ import annotations

import textwrap
from typing import NamedTuple

from rich.segment import Segment
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.ui.safetext import safe_text, truncate_middle
from tui_workbench.ui.themes import palette_of, style

MARGIN = 4
"""Cells of a line that the text does not have: blanks at both ends, and the mark."""

MIN_ROOM = 20


class NoticeLine(NamedTuple):
    """A line as it is shown: a mark, a text, and the colour of both (a field name of `Palette`)."""

    mark: str
    text: str
    role: str


class Notice(Widget):
    """Shows what it is told; posts `Changed` when that needs another number of lines."""

    class Changed(Message):
        """Something else is said than before, or in another number of lines."""

        def __init__(self, notice: Notice) -> None:
            super().__init__()
            self.notice = notice

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._text = ""
        self._wrong = False
        self._standing = ""

    @property
    def text(self) -> str:
        """What is said last."""
        return self._text

    @property
    def is_error(self) -> bool:
        """True when what is said last is an error."""
        return self._wrong

    @property
    def must_be_read(self) -> bool:
        """True when it is to be shown also where there is little room."""
        return self._wrong or bool(self._standing)

    def say(self, text: str, *, wrong: bool = False) -> None:
        """Show a text of any origin."""
        if (safe_text(text), wrong) != (self._text, self._wrong):
            self._text, self._wrong = safe_text(text), wrong
            self._tell()

    def stand(self, text: str) -> None:
        """Show a text of any origin below everything else, from now on."""
        self._standing = safe_text(text)
        self._tell()

    def _tell(self) -> None:
        self.refresh()
        self.post_message(self.Changed(self))

    def on_resize(self) -> None:
        """Another width may need another number of lines."""
        self.post_message(self.Changed(self))

    def lines(self, width: int) -> list[NoticeLine]:
        """What is shown on a screen of this width."""
        room = max(MIN_ROOM, width - MARGIN)
        if self._wrong:
            shown = _marked("✗", self._text, "error", room)
        else:
            shown = [NoticeLine(" ", truncate_middle(self._text, room + 2), "muted")]
        return shown + (_marked("▲", self._standing, "warning", room) if self._standing else [])

    def render_line(self, y: int) -> Strip:
        """One of the lines."""
        palette = palette_of(self)
        lines = self.lines(self.size.width)
        if y >= len(lines):
            return Strip.blank(self.size.width, style(palette.text, palette.raised))
        ink = style(getattr(palette, lines[y].role), palette.raised)
        return Strip([Segment(f"{lines[y].mark}{lines[y].text}", ink)]).adjust_cell_length(self.size.width, ink)


def _marked(mark: str, text: str, role: str, room: int) -> list[NoticeLine]:
    wrapped = textwrap.wrap(text, room, break_on_hyphens=False) or [""]
    return [NoticeLine("   " if place else f" {mark} ", line, role) for place, line in enumerate(wrapped)]
