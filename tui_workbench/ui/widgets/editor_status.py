"""The line under the text: what is wrong where the cursor is, or what there is to know; and where the cursor is.

The invariant: it only draws what it was handed, and repaints its one line when that changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len, set_cell_size

from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.widgets.line import Line
from tui_workbench.ui.widgets.pieces import Piece, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence


class Note(NamedTuple):
    """A sentence, the colour of the palette it is written in, and what a key can do about it (`f9 fix`)."""

    text: str = ""
    role: str = "muted"
    hint: str = ""


class EditorStatus(Line):
    """`▲ 12: nvidiaDocker is not true or false       Ln 12, Col 4   YAML`."""

    DEFAULT_CSS = "EditorStatus { dock: bottom; padding: 0 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._note = Note()
        self._facts: tuple[str, ...] = ()

    def choose_ground(self) -> str:
        """The ground of the text above."""
        return "background"

    def show(self, note: Note, facts: Sequence[str]) -> None:
        """Show the note at the left and the facts at the right; the note is cut where there is no room for it."""
        shown = note._replace(text=safe_text(note.text)), tuple(fact for fact in facts if fact)
        if shown != (self._note, self._facts):
            self._note, self._facts = shown
            self.refresh()

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        """The note and the facts."""
        hint = Piece(f"{self._note.hint}   " if self._note.hint else "", "accent", bold=True)
        facts = Piece("   ".join(self._facts), "muted")
        room = width - width_of([hint, facts]) - 2
        text = self._note.text
        if cell_len(text) > room:
            text = set_cell_size(text, max(room - 1, 0)) + "…"
        return [Piece(text, self._note.role)], [hint, facts]
