"""Search in the open file: a row with a text field and the number of matches.

The invariant: it only knows text and where things are in it; marking and moving is up to who mounted it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import on
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Label

from tui_workbench.ui.commands import bindings
from tui_workbench.ui.editor_commands import FIND_ROW
from tui_workbench.ui.widgets.text_field import BareField

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

MOST_MATCHES = 10_000
"""Matches that are marked and counted; more tell a person nothing."""


class Match(NamedTuple):
    """Where a match stands; rows and columns count from 0."""

    row: int
    start: int
    end: int


def find_all(lines: Sequence[str], wanted: str) -> list[Match]:
    """Every place of `wanted`, up to MOST_MATCHES; letter case counts when `wanted` has a capital."""
    if not wanted:
        return []
    pattern = re.compile(re.escape(wanted), 0 if wanted != wanted.lower() else re.IGNORECASE)
    found: list[Match] = []
    for row, line in enumerate(lines):
        found += [Match(row, *match.span()) for match in pattern.finditer(line)]
        if len(found) >= MOST_MATCHES:
            return found[:MOST_MATCHES]
    return found


def line_wanted(wanted: str) -> int:
    """The line that `:12` asks for; 0 when it asks for none."""
    number = wanted[1:].strip()
    return int(number) if wanted.startswith(":") and number.isascii() and number.isdigit() and len(number) < 10 else 0


class FindRow(Horizontal):
    """`Find ______   3 of 17`; `:12` goes to line 12."""

    DEFAULT_CSS = """
    FindRow {
        height: 1;
        padding: 0 1;
        background: $panel;
        & Label { width: auto; color: $text-muted; padding-right: 1; }
        & TextField { width: 1fr; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(FIND_ROW)

    class Sought(Message):
        """Another text is wanted."""

        def __init__(self, wanted: str) -> None:
            super().__init__()
            self.wanted = wanted

    class Stepped(Message):
        """The next match (1) or the previous one (-1) was asked for."""

        def __init__(self, direction: int) -> None:
            super().__init__()
            self.direction = direction

    class Closed(Message):
        """The search is over."""

    def __init__(self) -> None:
        super().__init__()
        self._field = BareField(placeholder="text, or :12 for a line")
        self._count = Label("", markup=False)

    def compose(self) -> ComposeResult:
        """The field between its name and the count."""
        yield Label("Find")
        yield self._field
        yield self._count

    @property
    def wanted(self) -> str:
        """The text that is sought."""
        return self._field.value

    def start(self, wanted: str = "") -> None:
        """Take the focus, with `wanted`, if any, in the field and selected."""
        if wanted:
            self._field.value = wanted
        # At once, and not through the app's queue: the letters of the wanted text may already wait in it.
        self.screen.set_focus(self._field)
        self._field.action_select_all()

    def show_count(self, current: int, total: int) -> None:
        """Tell which match the cursor is at (from 1; 0 when at none) and how many there are."""
        if not self.wanted or self.wanted.startswith(":"):
            text = ""
        elif not total:
            text = "nothing found"
        else:
            text = f"{current or '-'} of {total:,}{'+' if total >= MOST_MATCHES else ''}"
        self._count.update(text)

    @on(Input.Changed)
    def _seek(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Sought(event.value))

    def action_step(self, direction: int) -> None:
        """The next or the previous match."""
        self.post_message(self.Stepped(direction))

    def action_close(self) -> None:
        """End the search."""
        self.post_message(self.Closed())
