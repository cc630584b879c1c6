"""How many runs ended how, as bars: one line a state, glyph and word and number and a bar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.model import RunState
from tui_workbench.ui.themes import palette_of, style
from tui_workbench.ui.words import RUN_STATES

if TYPE_CHECKING:
    from collections.abc import Mapping

ORDER = (
    RunState.RUNNING,
    RunState.FINALIZING,
    RunState.PREPARING,
    RunState.QUEUED,
    RunState.COMPLETED,
    RunState.FAILED,
    RunState.CANCELED,
    RunState.UNKNOWN,
)
LABEL_CELLS = 21
_EIGHTHS = "▏▎▍▌▋▊▉█"


def bar(share: float, cells: int) -> str:
    """A bar of a share (0 to 1) of some cells; one that is not nothing is seen."""
    eighths = round(share * cells * 8) or (1 if share > 0 else 0)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest - 1] if rest else "")


class StateBars(Widget, inherit_bindings=False):
    """Shows the counts that it is handed."""

    DEFAULT_CSS = "StateBars { height: 1fr; width: 1fr; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._counts: dict[str, int] = {}

    def show(self, counts: Mapping[str, int]) -> None:
        """Show how many runs are in each state."""
        known = {state: counts[state] for state in ORDER if counts.get(state)}
        if known != self._counts:
            self._counts = known
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """One state, below the title."""
        palette = palette_of(self)
        ground, width = palette.background, self.size.width
        if y == 0:
            segments = [Segment(" state", style(palette.text, ground, bold=True))]
        elif y - 1 < len(self._counts):
            state, number = list(self._counts.items())[y - 1]
            look = RUN_STATES[state]
            room = max(0, width - LABEL_CELLS - 2)
            share = number / max(self._counts.values())
            segments = [
                Segment(f" {look.glyph} {look.word:<11}", style(getattr(palette, look.role), ground)),
                Segment(f"{number:>7,} ", style(palette.text, ground)),
                Segment(bar(share, room), style(getattr(palette, look.role), ground)),
            ]
        else:
            segments = []
        return Strip(segments).adjust_cell_length(width, style(palette.text, ground))
