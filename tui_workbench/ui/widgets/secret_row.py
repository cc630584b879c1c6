"""A secret asked for in place, in the row where questions stand.

The invariants: what is typed is drawn as dots; it leaves the row once, in `Answered`, and the row then forgets it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.ui.commands import bindings
from tui_workbench.ui.dialog_commands import SECRET
from tui_workbench.ui.safetext import safe_text, truncate_middle
from tui_workbench.ui.themes import palette_of, style
from tui_workbench.ui.widgets.line_buffer import LineBuffer

if TYPE_CHECKING:
    from textual import events
    from textual.binding import BindingType


_WIDEST_PROMPT = 3
"""The prompt takes at most two of this many parts of the row."""


class SecretRow(Widget, can_focus=True, inherit_bindings=False):
    """Asks for one secret; posts `Answered`."""

    DEFAULT_CSS = "SecretRow { height: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings(SECRET)

    class Answered(Message):
        """The secret was typed, or "" for escape."""

        def __init__(self, row: SecretRow, answer: str) -> None:
            super().__init__()
            self.row = row
            self.answer = answer

    def __init__(self, prompt: str, *, focus_key: str = "") -> None:
        """`prompt` is of any origin; `focus_key` is named while the row has no focus, as the key that leads to it."""
        super().__init__()
        self._prompt = safe_text(prompt)
        self._focus_key = focus_key
        self._buffer = LineBuffer()

    def lines(self, width: int) -> int:
        """One, at any width."""
        return 1

    async def _on_key(self, event: events.Key) -> None:
        if event.key not in ("enter", "escape") and self._buffer.press(event.key, event.character):
            event.stop()
            event.prevent_default()
            self.refresh()

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Letters go into the secret, so their commands are not offered."""
        return character is not None and character.isprintable()

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        self._buffer.insert(event.text.rstrip("\r\n"))
        self.refresh()

    def action_give(self) -> None:
        """Hand the secret over; an empty one is none yet."""
        if self._buffer.text:
            self._answer(self._buffer.text)

    def action_leave(self) -> None:
        """Give none."""
        self._answer("")

    def _answer(self, answer: str) -> None:
        self._buffer = LineBuffer()
        self.post_message(self.Answered(self, answer))

    def on_focus(self) -> None:
        """It looks different with the focus."""
        self.refresh()

    def on_blur(self) -> None:
        """It looks different without the focus."""
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """The prompt, and a dot for each character."""
        palette = palette_of(self)
        width = self.size.width
        ground = palette.selected if self.has_focus else palette.raised
        text = style(palette.text, ground)
        prompt = truncate_middle(self._prompt, width * (_WIDEST_PROMPT - 1) // _WIDEST_PROMPT)
        segments = [Segment(f" {prompt}: ", style(palette.warning, ground, bold=True))]
        dots = "•" * len(self._buffer.text)
        if self.has_focus:
            segments += [Segment(dots, text), Segment(" ", style(palette.background, palette.accent))]
        elif self._focus_key:
            segments.append(Segment(f"{self._focus_key} answers", style(palette.muted, ground)))
        return Strip(segments).adjust_cell_length(width, text)
