"""What is said in passing, and what is wrong, in the lines under the run bar; no window opens for either.

Something passing takes one line and is cut to it. An error is never cut, and neither is a text that stands: what was
found out once, and is true for as long as the project is open.
"""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.themes.themes import palette_of
from tui_workbench.ui.widgets.pieces import LEAST_TEXT, Piece, draw_line, hanging


class Notice(Widget):
    """Shows what it is told; posts `Changed` when that needs another number of lines."""

    @dataclass(eq=False)
    class Changed(Message):
        """Something else is said than before, or in another number of lines."""

        notice: Notice

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
    def is_important(self) -> bool:
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
        self.post_message(self.Changed(self))

    def lines(self, width: int) -> list[tuple[Piece, ...]]:
        """What is shown on a screen of this width."""
        if self._wrong:
            lines = hanging((Piece(" ✗ ", "error"),), self._text, width, "error")
        else:
            lines = [(Piece(f" {truncate_middle(self._text, max(LEAST_TEXT, width - 4) + 2)}", "muted"),)]
        if self._standing:
            lines += hanging((Piece(" ▲ ", "warning"),), self._standing, width, "warning")
        return lines

    def render_line(self, y: int) -> Strip:
        lines, palette = self.lines(self.size.width), palette_of(self)
        return draw_line(lines[y] if y < len(lines) else (), self.size.width, palette, palette.raised)
