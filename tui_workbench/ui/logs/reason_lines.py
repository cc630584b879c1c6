"""The lines above the log of a run: the reason for its state, a warning, or the last exception."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from rich.segment import Segment
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.runs.logs.log_traceback import Frame, Traceback
from tui_workbench.ui.commands.jump import JumpPlace
from tui_workbench.ui.formatting import StateLook
from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.themes.themes import palette_of, style
from tui_workbench.ui.widgets.line import Line
from tui_workbench.ui.widgets.pieces import Piece, width_of

MOST_LINES = 4
MARGIN = 4


def reason_lines(text: str, width: int) -> list[str]:
    """Wrap a safe text to at most `MOST_LINES` lines of this width. The middle of a longer text is omitted."""
    lines = textwrap.wrap(text, width, break_on_hyphens=False)
    if len(lines) > MOST_LINES:
        # The beginning of the text says what happened, and the end how to fix it, so the middle is omitted.
        rest = " ".join(lines[MOST_LINES - 1 :])
        lines = [*lines[: MOST_LINES - 1], truncate_middle(rest, width)]
    return lines


class ReasonLines(Widget, inherit_bindings=False):
    """The reason for a run's state: `? Unreachable since 14:03:12: gpu-box: ...`."""

    DEFAULT_CSS = "ReasonLines { height: auto; }"

    def __init__(self) -> None:
        super().__init__()
        self._look = StateLook("", "", "text")
        self._reason = ""

    def show_reason(self, look: StateLook, reason: str) -> None:
        """Show a state and its reason, which is untrusted text."""
        if (look, safe_text(reason)) != (self._look, self._reason):
            self._look, self._reason = look, safe_text(reason)
            self.refresh(layout=True)

    def _lines(self, width: int) -> list[str]:
        return reason_lines(self._reason, max(width - MARGIN, 20))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines(width))

    def render_line(self, y: int) -> Strip:
        palette = palette_of(self)
        width = self.size.width
        ink = style(getattr(palette, self._look.role), palette.raised)
        lines = self._lines(width)
        mark = f" {self._look.glyph} " if y == 0 else "   "
        text = lines[y] if y < len(lines) else ""
        return Strip([Segment(mark + text, ink)]).adjust_cell_length(width, ink)


class TracebackLine(Line):
    """A traceback in one line: `✗ ValueError: shapes do not match    train.py:41 in forward`.

    The exception and the location can be clicked.
    """

    class Chosen(Message):
        """Posted when the exception is clicked."""

    @dataclass(eq=False)
    class LocationChosen(Message):
        """Posted when the location of the error is clicked."""

        frame: Frame

    def __init__(self) -> None:
        super().__init__()
        self._traceback: Traceback | None = None
        self._file = ""

    def show_traceback(self, traceback: Traceback, file: str) -> None:
        """Show a traceback; `file` is the frame's file, relative to the project if possible."""
        if (traceback, file) != (self._traceback, self._file):
            self._traceback, self._file = traceback, file
            self.refresh()

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        if self._traceback is None:
            return (), ()
        right: list[Piece] = []
        frame = self._traceback.frame
        if frame is not None:
            location = f"{self._file}:{frame.line}" + (f" in {frame.function}" if frame.function else "")
            text = truncate_middle(safe_text(location), width // 2)
            right = [Piece(f" {text} ", "muted", action=lambda: self.post_message(self.LocationChosen(frame)))]
        room = width - width_of(right) - 4
        exception = truncate_middle(safe_text(self._traceback.exception), room)
        return [Piece(f" ✗ {exception}", "error", action=lambda: self.post_message(self.Chosen()))], right

    def jump_places(self) -> list[JumpPlace]:
        return self.click_places()
