"""The search row of an open file, which finds text or goes to a line.

The invariant: after each change of the pattern, the search starts at the match that the user last stepped to. Without
such a match, it starts at the position of the cursor when the row was opened.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Label
from textual.widgets.text_area import Selection

from tui_workbench.ui.commands.editor_commands import FIND_ROW
from tui_workbench.ui.editor.text_editor import TextEditor
from tui_workbench.ui.terminal.stand_ins import to_document
from tui_workbench.ui.widgets.text_field import BareField

MOST_MATCHES = 10_000


class Match(NamedTuple):
    """The position of a match; rows and columns count from 0."""

    row: int
    start: int
    end: int


def find_all(lines: Sequence[str], text: str) -> list[Match]:
    """Return up to MOST_MATCHES matches. The search is case-sensitive if `text` contains a capital letter."""
    if not text:
        return []
    pattern = re.compile(re.escape(text), 0 if text != text.lower() else re.IGNORECASE)
    matches: list[Match] = []
    for row, line in enumerate(lines):
        matches += [Match(row, *match.span()) for match in pattern.finditer(line)]
        if len(matches) >= MOST_MATCHES:
            return matches[:MOST_MATCHES]
    return matches


def line_number(text: str) -> int:
    """Return the line number in a text such as `:12`, or 0 for other texts."""
    number = text[1:].strip()
    return int(number) if text.startswith(":") and number.isascii() and number.isdigit() and len(number) < 10 else 0


class FindRow(Horizontal):
    """A search row: `Find ______   3 of 17`.

    The row marks the matches in `editor` and moves the editor's cursor. The text `:12` goes to line 12.
    """

    DEFAULT_CSS = """
    FindRow {
        height: 1;
        padding: 0 1;
        background: $panel;
        & Label { width: auto; color: $text-muted; padding-right: 1; }
        & TextField { width: 1fr; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = FIND_ROW.bindings

    class Closed(Message):
        """Posted when the search is closed."""

    def __init__(self, editor: TextEditor) -> None:
        super().__init__()
        self._editor = editor
        self._field = BareField(placeholder="text, or :12 for a line")
        self._count = Label("", markup=False)
        self._origin = min(editor.selection)
        self._matches: list[Match] = []

    def compose(self) -> ComposeResult:
        yield Label("Find")
        yield self._field
        yield self._count

    def start(self) -> None:
        """Focus the field. A selection within a line becomes the pattern."""
        self._origin = min(self._editor.selection)
        selected = self._editor.selected_text
        if selected and "\n" not in selected:
            self._field.value = selected
        # `Widget.focus` is deferred, which would be too late for keys that are already queued.
        self.screen.set_focus(self._field)
        self._field.action_select_all()

    def find_again(self) -> None:
        """Find the matches in the current text; the cursor stays."""
        text = "" if self._field.value.startswith(":") else to_document(self._field.value)
        self._matches = find_all(self._editor.document.lines, text)
        spans: dict[int, list[tuple[int, int]]] = {}
        for row, start, end in self._matches:
            spans.setdefault(row, []).append((start, end))
        self._editor.mark_matches(spans)
        self._show_count()

    @on(Input.Changed)
    def _seek(self, event: Input.Changed) -> None:
        event.stop()
        self.find_again()
        if line := line_number(event.value):
            self._editor.go_to(line)
        elif self._matches:
            self._go_to(next((match for match in self._matches if match[:2] >= self._origin), self._matches[0]))
        else:
            self._editor.selection = Selection.cursor(self._origin)

    def action_step(self, direction: int) -> None:
        if not self._matches:
            return
        start = min(self._editor.selection)
        if direction > 0:
            target = next((match for match in self._matches if match[:2] > start), self._matches[0])
        else:
            before = [match for match in self._matches if match[:2] < start]
            target = before[-1] if before else self._matches[-1]
        self._go_to(target)
        self._origin = target[:2]

    def action_close(self) -> None:
        self.post_message(self.Closed())

    async def end(self) -> None:
        self._editor.mark_matches({})
        await self.remove()

    def _go_to(self, match: Match) -> None:
        self._editor.selection = Selection((match.row, match.start), (match.row, match.end))
        self._editor.scroll_cursor_visible(center=True)
        self._show_count()

    def _show_count(self) -> None:
        text = ""
        if self._field.value and not self._field.value.startswith(":"):
            cursor = min(self._editor.selection)
            current = next((number for number, match in enumerate(self._matches, 1) if match[:2] == cursor), "-")
            total = len(self._matches)
            more = "+" if total >= MOST_MATCHES else ""
            text = f"{current} of {total:,}{more}" if total else "no match"
        self._count.update(text)
