"""A question in a row below its subject, with a key for each answer. The row does not focus itself."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import NamedTuple

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tui_workbench.ui.commands.screen_commands import QUESTION
from tui_workbench.ui.terminal.safetext import truncate_middle

PADDING, MAX_LINES, GAP = 2, 4, 3
"""Cells at the sides of the row, its maximum number of lines, and the cells between its parts."""


class Choice(NamedTuple):
    """An answer: its key, its label, and its value in `Answered`."""

    key: str
    label: str
    answer: str


class Question(NamedTuple):
    """A question and its answers. Escape answers "". Enter answers like `y`, unless `needs_letter`."""

    text: str
    choices: tuple[Choice, ...]
    needs_letter: bool = False


def yes_no(answer: str, yes: str = "yes", no: str = "no") -> tuple[Choice, Choice]:
    """Return the choices of a yes-no question; `answer` is the value of yes."""
    return Choice("y", yes, answer), Choice("n", no, "")


class _Part(NamedTuple):
    """A part of a line, in a Textual style. A click on it gives `answer`, unless that is None."""

    text: str
    style: str = ""
    answer: str | None = None


_KEY = "bold $warning"


class QuestionRow(Widget, can_focus=True):
    """A row with a question. Posts `Answered` when a key or the mouse gives an answer."""

    DEFAULT_CSS = """
    QuestionRow {
        height: auto;
        max-height: 4;
        padding: 0 1;
        background: $warning 15%;
        color: $foreground;
        &:focus { background: $warning 30%; }
    }
    """

    BINDINGS = QUESTION.bindings

    @dataclass(eq=False)
    class Answered(Message):
        """Posted when the user has given an answer."""

        row: QuestionRow
        question: Question
        answer: str

        @property
        def control(self) -> QuestionRow:
            return self.row

    def __init__(self, question: Question, *, focus_key: str = "") -> None:
        """`focus_key` focuses the row and is shown while the row has no focus."""
        super().__init__()
        self.question = question
        self._focus_key = focus_key

    def lines(self, width: int) -> int:
        """Return the number of lines at this width while the row does not have the focus."""
        return len(self._rows(max(width - PADDING, 1), hinted=True))

    def render(self) -> Content:
        rows = self._rows(max(self.content_size.width, 1), hinted=not self.has_focus)
        lines = (Content.assemble(*((part.text, part.style) for part in row)) for row in rows)
        return Content("\n").join(lines)

    def _rows(self, room: int, *, hinted: bool) -> list[list[_Part]]:
        """Return the parts of each line. A key and its label stay together; a long text is shortened."""
        groups = [
            [_Part(choice.key, _KEY, choice.answer), _Part(f" {choice.label}", answer=choice.answer)]
            for choice in self.question.choices
        ]
        if hinted and self._focus_key:
            groups.insert(0, [_Part(self._focus_key, _KEY), _Part(" answers:", "$foreground 60%")])
        text = textwrap.wrap(self.question.text, room) or [""]
        while True:
            rows = _flow([[_Part(line)] for line in text], groups, room)
            if len(rows) <= MAX_LINES or len(text) == 1:
                return rows
            text = [*text[:-2], truncate_middle(f"{text[-2]} {text[-1]}", room)]

    def on_key(self, event: events.Key) -> None:
        if self.press(event.key):
            event.stop()

    def press(self, key: str) -> bool:
        """Give the answer of a key. Return False if no choice has the key."""
        if key == "enter" and not self.question.needs_letter:
            key = "y"
        answer = next((choice.answer for choice in self.question.choices if choice.key == key), None)
        if answer is not None:
            self._answer(answer)
        return answer is not None

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        rows, end = self._rows(max(self.content_size.width, 1), hinted=not self.has_focus), 0
        for part in rows[offset.y] if offset.y < len(rows) else ():
            start, end = end, end + cell_len(part.text)
            if start <= offset.x < end and part.answer is not None:
                self._answer(part.answer)

    def action_leave(self) -> None:
        self._answer("")

    def _answer(self, answer: str) -> None:
        self.post_message(self.Answered(self, self.question, answer))


def _flow(rows: list[list[_Part]], groups: list[list[_Part]], room: int) -> list[list[_Part]]:
    """Append each group to the last row if it fits, else as a new row."""
    for group in groups:
        used = sum(cell_len(part.text) for part in rows[-1])
        if used + GAP + sum(cell_len(part.text) for part in group) <= room:
            rows[-1].extend([_Part(" " * GAP), *group])
        else:
            rows.append(group)
    return rows
