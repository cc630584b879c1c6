"""What the run bar holds, in one line of another screen: what ctrl+r runs there, too."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tui_workbench.ui.command import shown_key
from tui_workbench.ui.messages import RunBarWanted, RunRequested
from tui_workbench.ui.safetext import safe_text, truncate_middle
from tui_workbench.ui.widgets.line import Line
from tui_workbench.ui.widgets.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui_workbench.model import RunRequest

_BESIDE = 34
"""Cells that the words and the button take."""


class RequestLine(Line):
    """Says what the next run is asked for; a click on it goes to the run bar, one on the button runs it."""

    def __init__(self, request: RunRequest | None) -> None:
        """`request` is None when the run bar holds none that could be run."""
        super().__init__()
        self._request = request

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        """Environment, script and arguments; the button."""
        request = self._request
        if request is None:
            return [Piece(" Nothing to run is chosen", "muted"), Piece("  0 goes to the run bar", "accent")], ()
        words = (request.run_configuration, request.script, shlex.join(request.arguments))
        room = max(6, (width - _BESIDE) // 3)
        left = [Piece(" Run on", "muted")]
        for word in filter(None, words):
            left.append(Piece(f"  {truncate_middle(safe_text(word), room)}", action=self._edit))
        key = shown_key("dashboard.run", "ctrl+r")
        run = [Piece("▶ Run", "success", bold=True, action=self._run), Piece(f"  {key} ", "muted", action=self._run)]
        return left, run

    def _edit(self) -> None:
        self.post_message(RunBarWanted())

    def _run(self) -> None:
        self.post_message(RunRequested())
