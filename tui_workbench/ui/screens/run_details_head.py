"""What a run is, in two or three lines: name, target, state, time; its arguments, or why it failed; its use of GPUs."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.ui.safetext import safe_text, truncate_middle
from tui_workbench.ui.screens.dashboard_columns import tags_text
from tui_workbench.ui.themes import palette_of, style
from tui_workbench.ui.verdicts import verdict_look, verdict_text
from tui_workbench.ui.widgets.pieces import Piece, width_of
from tui_workbench.ui.words import elapsed, moment, run_state, run_title

if TYPE_CHECKING:
    from tui_workbench.runs.table import RunRow

LONGEST = 1_000
_FIGURES = ": GPU"
"""Behind this stand the figures of a verdict."""


class RunHead(Widget, inherit_bindings=False):
    """Shows the run that it is handed."""

    DEFAULT_CSS = "RunHead { height: 2; }"

    def __init__(self) -> None:
        super().__init__()
        self._row: RunRow | None = None

    def show(self, row: RunRow) -> None:
        """Show this run."""
        self._row = row
        self.styles.height = 3 if row.facts.gpu else 2
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One of the lines."""
        palette, width = palette_of(self), self.size.width
        pieces = (self._first, self._second, self._verdict)[min(y, 2)](width)
        segments = [Segment(p.text, style(getattr(palette, p.role), palette.raised, bold=p.bold)) for p in pieces]
        return Strip(segments).adjust_cell_length(width, style(palette.text, palette.raised))

    def _first(self, width: int) -> list[Piece]:
        if self._row is None:
            return []
        run, said, now = self._row.run, self._row.facts.annotations, time.time()
        look = run_state(run)
        # What comes first stays where there is little room.
        rest = [Piece(f"  {look.glyph} {look.word}", look.role)]
        for text in (elapsed(run, now), moment(run.start or run.created, now), f"on {safe_text(run.target[:60])}"):
            rest.append(Piece(f"  {text}" if text else "", "muted"))
        rest.append(Piece(f"  commit {run.commit_id[:8]}" if run.commit_id else "  no snapshot", "muted"))
        if said.pinned:
            rest.append(Piece("  ★ pinned", "warning"))
        if said.archived:
            rest.append(Piece("  archived", "warning"))
        if said.tags:
            rest.append(Piece(f"  {safe_text(tags_text(self._row.facts)[:200])}", "string"))
        name = truncate_middle(run_title(run) if run.script_name else run.run_id, max(16, width // 3))
        pieces = [Piece(f" {name}", bold=True)]
        for piece in rest:
            if width_of(pieces) + width_of((piece,)) > width:
                break
            pieces.append(piece)
        return pieces

    def _verdict(self, width: int) -> list[Piece]:
        brief = self._row.facts.gpu if self._row is not None else {}
        if not brief:
            return []
        word = str(brief.get("verdict", ""))
        look = verdict_look(word)
        pieces = [Piece(f" {look.glyph} GPU {safe_text(word)}", look.role)]
        room = width - width_of(pieces) - 3
        text = safe_text(verdict_text(brief)[:LONGEST])
        if cell_len(text) > room:
            # Of a sentence with figures the figures stay; the tab tells all of it.
            text = text[text.rfind(_FIGURES) + 2 :] if _FIGURES in text else text
        return [*pieces, Piece(f"  {truncate_middle(text, room)}", "text")]

    def _second(self, width: int) -> list[Piece]:
        if self._row is None:
            return []
        run, note = self._row.run, self._row.facts.annotations.note
        if run.reason:
            look = run_state(run)
            return [Piece(f" {truncate_middle(run.reason[:LONGEST], width - 2)}", look.role)]
        arguments = safe_text(shlex.join(run.arguments)[:LONGEST]) or "no arguments"
        shown = truncate_middle(arguments, width - 2)
        pieces = [Piece(f" {shown}", "muted")]
        if note and width_of(pieces) + 12 < width:
            room = width - width_of(pieces) - 4
            pieces.append(Piece(f"   {truncate_middle(note.replace(chr(10), ' ')[:LONGEST], room)}", "text"))
        return pieces
