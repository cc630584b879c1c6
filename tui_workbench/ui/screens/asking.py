"""One question at a time, in the row above the keys of the main screen.

The invariants: a question waits until the one before it was answered; it takes the focus from somebody who is
typing only at once, as the answer to a key, and gives it back; a screen that goes away answers with nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from tui_workbench.ui.command import shown_key

if TYPE_CHECKING:
    from textual.screen import Screen
    from textual.widget import Widget

    from tui_workbench.ui.widgets.question_row import Choice, QuestionRow
    from tui_workbench.ui.widgets.secret_row import SecretRow

ROW = "question"
"""The id of the row, which the layout of the screen knows."""

FOCUS_KEY = shown_key("run.start", "ctrl+r")
"""The key that asks for a run leads to the question that the run waits for."""


ELSEWHERE = "A question about a run waits on the main screen."


class Place(Protocol):
    """The screen that the row stands on."""

    def make_room(self, lines: int) -> None:
        """Give the row this many lines, 0 when it is gone."""

    def is_typing(self) -> bool:
        """Whether keys go into a text now."""

    def give_back_focus(self) -> None:
        """The row that had the focus is gone."""


class Asking:
    """Asks on a screen. `place` and `screen` are the same thing, seen from two sides."""

    def __init__(self, screen: Screen[None], place: Place) -> None:
        self._screen = screen
        self._place = place
        self._turn = asyncio.Lock()
        self._row: QuestionRow | SecretRow | None = None
        self._answer: asyncio.Future[str] | None = None

    @property
    def is_open(self) -> bool:
        """Whether a question waits for its answer."""
        return self._row is not None

    async def choose(self, text: str, *choices: Choice, is_awaited: bool = False) -> str:
        """The answer of the chosen one; "" when nothing was chosen. `text` must be safe.

        One that `is_awaited` comes as the answer to a key, and gets the focus from whoever has it.
        """
        from tui_workbench.ui.widgets.question_row import Question, QuestionRow

        return await self._ask(QuestionRow(Question(text, choices), focus_key=FOCUS_KEY), is_awaited=is_awaited)

    async def secret(self, prompt: str) -> str:
        """What was typed, never shown; "" when nothing was given. `prompt` is of any origin."""
        from tui_workbench.ui.widgets.secret_row import SecretRow

        return await self._ask(SecretRow(prompt, focus_key=FOCUS_KEY))

    async def _ask(self, row: QuestionRow | SecretRow, *, is_awaited: bool = False) -> str:
        async with self._turn:
            self._answer = asyncio.get_running_loop().create_future()
            self._row = row
            row.id = ROW
            try:
                await self._screen.mount(row)
                if not self._screen.is_current:
                    self._screen.notify(ELSEWHERE, timeout=6.0, markup=False)
                self.fit()
                if is_awaited or not self._place.is_typing():
                    self.take_focus()
                return await self._answer
            finally:
                had_focus = row.has_focus
                self._row = self._answer = None
                if row.is_attached:
                    if had_focus:
                        self._place.give_back_focus()
                    await row.remove()
                    self._place.make_room(0)

    def take_focus(self) -> None:
        """Put the focus into the question."""
        if self._row is not None:
            self._screen.set_focus(self._row)

    def fit(self) -> None:
        """Make the room that the question needs at this width."""
        if self._row is not None:
            self._place.make_room(self._row.lines(self._screen.size.width))

    def answered(self, row: Widget, answer: str) -> bool:
        """Take an answer; False when it is one to a question that was asked elsewhere."""
        if row is not self._row or self._answer is None:
            return False
        if not self._answer.done():
            self._answer.set_result(answer)
        return True
