"""The first line: what is open, what runs, and whether the machines are well. One glance, no keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui_workbench.model import RunState
from tui_workbench.ui.safetext import safe_text, truncate_middle
from tui_workbench.ui.widgets.line import Line
from tui_workbench.ui.widgets.pieces import Piece, width_of
from tui_workbench.ui.words import RUN_STATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui_workbench.ui.words import StateLook

_COUNTED = (RunState.RUNNING, RunState.FINALIZING, RunState.PREPARING, RunState.QUEUED)


class Header(Line):
    """Project and branch; how many runs are active; each compute target with its state."""

    def __init__(self, project: str, *, id: str) -> None:
        super().__init__(id=id)
        self._project = safe_text(project)
        self._branch = ""
        self._changes = 0
        self._active: dict[str, int] = {}
        self._targets: tuple[tuple[str, StateLook], ...] = ()

    def show_branch(self, branch: str) -> None:
        """The git branch, or an empty string."""
        if branch != self._branch:
            self._branch = branch
            self.refresh()

    def show_changes(self, number: int) -> None:
        """How many files differ from the last commit."""
        if number != self._changes:
            self._changes = number
            self.refresh()

    def show_active(self, states: Sequence[str]) -> None:
        """The states of the runs that are active."""
        active = {state: states.count(state) for state in _COUNTED if state in states}
        if active != self._active:
            self._active = active
            self.refresh()

    def show_targets(self, targets: tuple[tuple[str, StateLook], ...]) -> None:
        """The name of each compute target, and how it is."""
        if targets != self._targets:
            self._targets = targets
            self.refresh()

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        """Left what is open, then what runs; right the targets, as many as there is room for."""
        left = [Piece(f" {truncate_middle(self._project, max(10, width // 3))}", "text", bold=True)]
        if self._branch:
            left.append(Piece(f"  {truncate_middle(self._branch, 20)}", "muted"))
            if self._changes:
                left.append(Piece(f" ±{self._changes:,}", "warning"))
        for state, number in self._active.items():
            look = RUN_STATES[state]
            left.append(Piece(f"   {look.glyph} {number} {look.word}", look.role))
        room = width - width_of(left) - 2
        right: list[Piece] = []
        for name, look in self._targets:
            shown = [Piece(f"  {truncate_middle(name, 16)} ", "muted"), Piece(look.glyph, look.role)]
            if width_of(right) + width_of(shown) > room:
                break
            right.extend(shown)
        return left, [*right, Piece(" ")]
