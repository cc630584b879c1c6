"""Messages and errors in a few lines, such as those under the run bar.

A message takes one line and is shortened to fit. An error, and a standing text that applies while the project is open,
are shown in full.
"""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.themes.themes import palette_of
from tui_workbench.ui.widgets.pieces import MIN_TEXT_WIDTH, Piece, draw_line, hanging


class Notice(Widget):
    """A message, and a permanent text below it. Posts `Changed` when a text or the size changes."""

    @dataclass(eq=False)
    class Changed(Message):
        """Posted when a text or the size of the notice changes."""

        notice: Notice

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._text = ""
        self._wrong = False
        self._standing = ""

    @property
    def text(self) -> str:
        return self._text

    @property
    def is_error(self) -> bool:
        return self._wrong

    @property
    def is_important(self) -> bool:
        """True if the text must be shown even in a small terminal."""
        return self._wrong or bool(self._standing)

    def say(self, text: str, *, wrong: bool = False) -> None:
        """Show an untrusted text, as an error if `wrong`."""
        if (safe_text(text), wrong) != (self._text, self._wrong):
            self._text, self._wrong = safe_text(text), wrong
            self._tell()

    def show_standing(self, text: str) -> None:
        """Show an untrusted text permanently, below the messages."""
        self._standing = safe_text(text)
        self._tell()

    def _tell(self) -> None:
        self.refresh()
        self.post_message(self.Changed(self))

    def on_resize(self) -> None:
        self.post_message(self.Changed(self))

    def lines(self, width: int) -> list[tuple[Piece, ...]]:
        if self._wrong:
            lines = hanging((Piece(" ✗ ", "error"),), self._text, width, "error")
        else:
            lines = [(Piece(f" {truncate_middle(self._text, max(MIN_TEXT_WIDTH, width - 4) + 2)}", "muted"),)]
        if self._standing:
            lines += hanging((Piece(" ▲ ", "warning"),), self._standing, width, "warning")
        return lines

    def render_line(self, y: int) -> Strip:
        lines, palette = self.lines(self.size.width), palette_of(self)
        return draw_line(lines[y] if y < len(lines) else (), self.size.width, palette, palette.raised)
