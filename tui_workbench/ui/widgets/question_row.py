"""A question asked in place, in one row under what it is about, with one key for each answer.

The invariant: a question never takes the keys from somebody who is typing; it gets them when it is focused.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tui_workbench.ui.commands import bindings
from tui_workbench.ui.dialog_commands import QUESTION

if TYPE_CHECKING:
    from textual import events
    from textual.binding import BindingType


PADDING, MOST_LINES = 2, 3
"""Cells at the sides of a row, and the lines that it takes at most."""


class Choice(NamedTuple):
    """One answer: the key that gives it, what it says, and the word that stands for it in `Answered`."""

    key: str
    label: str
    answer: str


class Question(NamedTuple):
    """What is asked and what can be answered. Escape always answers "" and leaves all as it is."""

    text: str
    choices: tuple[Choice, ...]


class QuestionRow(Widget, can_focus=True):
    """Shows a question; posts `Answered` when a key or the mouse gives an answer."""

    DEFAULT_CSS = """
    QuestionRow {
        height: auto;
        max-height: 3;
        padding: 0 1;
        background: $warning 15%;
        color: $foreground;
        & .question--key { color: $warning; text-style: bold; }
        & .question--hint { color: $foreground 60%; }
        &:focus { background: $warning 30%; }
    }
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"question--key", "question--hint"}

    BINDINGS: ClassVar[list[BindingType]] = bindings(QUESTION)

    class Answered(Message):
        """An answer was given: the `answer` of a choice, or "" for escape."""

        def __init__(self, row: QuestionRow, question: Question, answer: str) -> None:
            super().__init__()
            self.row = row
            self.question = question
            self.answer = answer

        @property
        def control(self) -> QuestionRow:
            """The row that was answered."""
            return self.row

    def __init__(self, question: Question, *, focus_key: str = "") -> None:
        """`focus_key` is named in the row, while it has no focus, as the key that leads to it."""
        super().__init__()
        self.question = question
        self._focus_key = focus_key
        self._spans: list[tuple[int, int, str]] = []

    def lines(self, width: int) -> int:
        """How many lines the question takes at this width, without the focus."""
        room = max(width - PADDING, 1)
        words = f"{self.question.text}   {self._focus_key} answers:   "
        words += "   ".join(f"{key} {label}" for key, label, _ in self.question.choices)
        return min(len(textwrap.wrap(words, room)), MOST_LINES)

    def render(self) -> Content:
        """The question, then each key with its answer."""
        key_style = self.get_visual_style("question--key")
        hint_style = self.get_visual_style("question--hint")
        line = Content(f"{self.question.text}   ")
        if not self.has_focus and self._focus_key:
            line = Content.assemble(line, (self._focus_key, key_style), (" answers:   ", hint_style))
        self._spans.clear()
        for key, label, answer in self.question.choices:
            start = line.cell_length
            line = Content.assemble(line, (key, key_style), f" {label}")
            self._spans.append((start, line.cell_length, answer))
            line = Content.assemble(line, "   ")
        return line

    def on_key(self, event: events.Key) -> None:
        """A choice's key gives its answer."""
        if self.press(event.key):
            event.stop()

    def press(self, key: str) -> bool:
        """Give the answer of a key; False when no choice has it. For who has the focus and hands its keys on."""
        answers = [choice.answer for choice in self.question.choices if choice.key == key]
        for answer in answers:
            self._answer(answer)
        return bool(answers)

    def on_click(self, event: events.Click) -> None:
        """A click on a choice gives its answer; elsewhere it only gives the focus."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        position = offset.y * self.content_size.width + offset.x
        for start, end, answer in self._spans:
            if start <= position < end:
                self._answer(answer)

    def action_leave(self) -> None:
        """Answer nothing now."""
        self._answer("")

    def _answer(self, answer: str) -> None:
        self.post_message(self.Answered(self, self.question, answer))
