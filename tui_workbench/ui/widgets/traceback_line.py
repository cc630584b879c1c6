"""One line that says why a script failed: the exception, and the line of the project that raised it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

from tui_workbench.ui.safetext import safe_text, truncate_middle
from tui_workbench.ui.widgets.line import Line
from tui_workbench.ui.widgets.pieces import Piece, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui_workbench.runs.logtraceback import Frame, Traceback
    from tui_workbench.ui.jump import Place

PLACE_SHARE = 2
"""The place of the error takes at most this part of the line: a half."""


class TracebackLine(Line):
    """`✗ ValueError: shapes do not match    train.py:41 in forward`. Either end can be clicked."""

    class Chosen(Message):
        """The traceback should be shown."""

    class PlaceChosen(Message):
        """The line of the project should be shown."""

        def __init__(self, frame: Frame) -> None:
            super().__init__()
            self.frame = frame

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._traceback: Traceback | None = None
        self._place = ""

    def show_traceback(self, traceback: Traceback, place: str) -> None:
        """What it says; `place` is the frame's file as a person knows it."""
        if (traceback, place) != (self._traceback, self._place):
            self._traceback, self._place = traceback, place
            self.refresh()

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        """The exception at the left, the place at the right."""
        if self._traceback is None:
            return (), ()
        right: list[Piece] = []
        frame = self._traceback.frame
        if frame is not None:
            place = f"{self._place}:{frame.line}" + (f" in {frame.function}" if frame.function else "")
            text = truncate_middle(safe_text(place), width // PLACE_SHARE)
            right = [Piece(f" {text} ", "muted", action=lambda: self._choose_place(frame))]
        room = width - width_of(right) - 4
        exception = truncate_middle(safe_text(self._traceback.exception), room)
        return [Piece(f" ✗ {exception}", "error", action=self._choose)], right

    def jump_places(self) -> list[Place]:
        """The traceback and the place that it names."""
        return self.click_places()

    def _choose(self) -> None:
        self.post_message(self.Chosen())

    def _choose_place(self, frame: Frame) -> None:
        self.post_message(self.PlaceChosen(frame))
