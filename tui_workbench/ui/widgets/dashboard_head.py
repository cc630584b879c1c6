"""The first line of the dashboard: whose runs, how many, and how they are filtered and grouped."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tui_workbench.ui.safetext import safe_text, truncate_middle
from tui_workbench.ui.widgets.line import Line
from tui_workbench.ui.widgets.pieces import Piece
from tui_workbench.ui.words import count

if TYPE_CHECKING:
    from collections.abc import Sequence


class Shown(NamedTuple):
    """What the table shows."""

    runs: int = -1  # -1 while it is not known
    filter: str = ""
    group: str = ""
    archived: bool = False
    marked: int = 0


class DashboardHead(Line):
    """Says what the table shows."""

    def __init__(self, project: str) -> None:
        super().__init__()
        self._project = safe_text(project)
        self._shown = Shown()

    def show(self, shown: Shown) -> None:
        """Say this."""
        if shown != self._shown:
            self._shown = shown
            self.refresh()

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        """Left the project and the number of runs, right what makes them fewer or puts them in order."""
        shown = self._shown
        left = [Piece(f" {truncate_middle(self._project, max(10, width // 3))}", bold=True)]
        if shown.runs >= 0:
            left.append(Piece(f"  {count(shown.runs, 'run')}", "muted"))
        if shown.filter:
            left.append(Piece(f" with {truncate_middle(shown.filter, max(8, width // 3))}", "accent"))
        right = []
        if shown.marked:
            right.append(Piece(f"{shown.marked} marked", "accent"))
        if shown.group:
            right.append(Piece(f"by {shown.group}", "muted"))
        if shown.archived:
            right.append(Piece("⊟ archived, too", "muted"))
        spaced = [part for piece in right for part in (Piece("   "), piece)]
        return left, [*spaced, Piece(" ")]
