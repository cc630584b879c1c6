"""A row that asks for a secret. Typed characters are drawn as dots. The secret leaves the row only in `Answered`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.message import Message

from tui_workbench.ui.commands.screen_commands import SECRET
from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.widgets.line import Line
from tui_workbench.ui.widgets.line_buffer import LineBuffer
from tui_workbench.ui.widgets.pieces import Piece


class SecretRow(Line, can_focus=True, inherit_bindings=False):
    """A row that asks for one secret and posts `Answered`."""

    BINDINGS = SECRET.bindings

    @dataclass(eq=False, repr=False)  # without `repr`, so that error reports do not show the secret
    class Answered(Message):
        """Posted when the user submits the secret, or cancels. After a cancel, `answer` is ""."""

        row: SecretRow
        answer: str

    def __init__(self, prompt: str, *, focus_key: str = "") -> None:
        """`prompt` is untrusted text; `focus_key` focuses the row and is shown while the row has no focus."""
        super().__init__()
        self._prompt = safe_text(prompt)
        self._focus_key = focus_key
        self._buffer = LineBuffer()

    def lines(self, width: int) -> int:
        return 1

    async def _on_key(self, event: events.Key) -> None:
        if event.key not in ("enter", "escape") and self._buffer.press(event.key, event.character):
            event.stop()
            event.prevent_default()
            self.refresh()

    def check_consume_key(self, key: str, character: str | None) -> bool:
        # Letters belong to the secret and are not commands.
        return character is not None and character.isprintable()

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        self._buffer.insert(event.text.rstrip("\r\n"))
        self.refresh()

    def action_give(self) -> None:
        if self._buffer.text:
            self._answer(self._buffer.text)

    def action_leave(self) -> None:
        self._answer("")

    def _answer(self, answer: str) -> None:
        self._buffer = LineBuffer()
        self.post_message(self.Answered(self, answer))

    def background_role(self) -> str:
        return "selected" if self.has_focus else "raised"

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        prompt = truncate_middle(self._prompt, width * 2 // 3)
        left = [Piece(f" {prompt}: ", "warning", bold=True)]
        if self.has_focus:
            left += [Piece("•" * len(self._buffer.text)), Piece("█", "accent")]
        elif self._focus_key:
            left.append(Piece(f"{self._focus_key} to answer", "muted"))
        return left, ()
