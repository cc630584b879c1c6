"""Why a run failed, or why nothing is known of it: said whole, above its log."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.ui.safetext import safe_text, truncate_middle
from tui_workbench.ui.themes import palette_of, style
from tui_workbench.ui.words import StateLook

if TYPE_CHECKING:
    from textual.geometry import Size

MOST_LINES = 4
MARGIN = 4


class ReasonLines(Widget, inherit_bindings=False):
    """`? Out of reach since 14:03:12: gpu-box: ...`, in as many lines as that takes."""

    DEFAULT_CSS = "ReasonLines { height: auto; }"

    def __init__(self) -> None:
        super().__init__()
        self._look = StateLook("", "", "text")
        self._reason = ""

    def show_reason(self, look: StateLook, reason: str) -> None:
        """The state that it is the reason of, and the reason, which may be of any origin."""
        if (look, safe_text(reason)) != (self._look, self._reason):
            self._look, self._reason = look, safe_text(reason)
            self.refresh(layout=True)

    def _lines(self, width: int) -> list[str]:
        lines = textwrap.wrap(self._reason, max(width - MARGIN, 20), break_on_hyphens=False)
        if len(lines) > MOST_LINES:
            # Its beginning says what happened, its end what to do.
            rest = " ".join(lines[MOST_LINES - 1 :])
            lines = [*lines[: MOST_LINES - 1], truncate_middle(rest, max(width - MARGIN, 20))]
        return lines

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as the reason takes."""
        return len(self._lines(width))

    def render_line(self, y: int) -> Strip:
        """One of them."""
        palette = palette_of(self)
        width = self.size.width
        ink = style(getattr(palette, self._look.role), palette.raised)
        lines = self._lines(width)
        mark = f" {self._look.glyph} " if y == 0 else "   "
        text = lines[y] if y < len(lines) else ""
        return Strip([Segment(mark + text, ink)]).adjust_cell_length(width, ink)
