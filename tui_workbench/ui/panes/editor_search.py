"""A search in one text: what is wanted, where it stands, and which place the cursor is at.

The invariant: while a person types the wanted text, every step starts from where the cursor was before the search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets.text_area import Selection

from tui_workbench.ui.widgets.find_row import FindRow, find_all, line_wanted
from tui_workbench.ui.widgets.source_document import to_document

if TYPE_CHECKING:
    from textual.document._document import Location

    from tui_workbench.ui.widgets.find_row import Match
    from tui_workbench.ui.widgets.text_editor import TextEditor


class EditorSearch:
    """Marks the matches in `editor` and moves its cursor; tells `row` how many there are."""

    def __init__(self, editor: TextEditor) -> None:
        self.editor = editor
        self.row = FindRow()
        self._origin: Location = min(editor.selection)
        self._matches: list[Match] = []

    def start(self) -> None:
        """Take the focus; what is selected, if it is part of one line, is what is wanted."""
        selected = self.editor.selected_text
        self._origin = min(self.editor.selection)
        self.row.start(selected if "\n" not in selected else "")

    def seek(self, wanted: str) -> None:
        """Mark every match and go to the first one from where the search began."""
        self.find_again()
        if line := line_wanted(wanted):
            self.editor.go_to(line)
        elif self._matches:
            self._go_to(next((match for match in self._matches if match[:2] >= self._origin), self._matches[0]))
        else:
            self.editor.selection = Selection.cursor(self._origin)
        self._count()

    def find_again(self) -> None:
        """Find the matches in the text as it is now; the cursor stays."""
        wanted = "" if self.row.wanted.startswith(":") else to_document(self.row.wanted)
        self._matches = find_all(self.editor.document.lines, wanted)
        spans: dict[int, list[tuple[int, int]]] = {}
        for row, start, end in self._matches:
            spans.setdefault(row, []).append((start, end))
        self.editor.mark_matches(spans)
        self._count()

    def step(self, direction: int) -> None:
        """Go to the next (1) or the previous (-1) match, around the ends of the text."""
        if not self._matches:
            return
        start = min(self.editor.selection)
        if direction > 0:
            after = (match for match in self._matches if match[:2] > start)
            target = next(after, self._matches[0])
        else:
            before = [match for match in self._matches if match[:2] < start]
            target = before[-1] if before else self._matches[-1]
        self._go_to(target)
        self._origin = target[:2]
        self._count()

    async def end(self) -> None:
        """Take away the row and the marks; the cursor stays where the search led."""
        self.editor.mark_matches({})
        await self.row.remove()

    def _go_to(self, match: Match) -> None:
        self.editor.selection = Selection((match.row, match.start), (match.row, match.end))
        self.editor.scroll_cursor_visible(center=True)

    def _count(self) -> None:
        start = min(self.editor.selection)
        current = next((number for number, match in enumerate(self._matches, 1) if match[:2] == start), 0)
        self.row.show_count(current, len(self._matches))
