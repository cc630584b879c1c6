"""Lines of coloured pieces to scroll through: readmes, plans, previews, differences.

Only the lines on the screen are drawn, however many there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui_workbench.ui.commands import LIST_FILTER, bindings
from tui_workbench.ui.history_commands import READER
from tui_workbench.ui.themes import palette_of, style
from tui_workbench.ui.widgets.filterable import Filterable
from tui_workbench.ui.widgets.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType

Line = tuple[Piece, ...]


class TextView(ScrollView, Filterable, can_focus=True, inherit_bindings=False):
    """Lines of pieces to scroll through."""

    DEFAULT_CSS = "TextView { height: 1fr; padding: 0 1; overflow-x: hidden; scrollbar-size: 1 1; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings(READER, LIST_FILTER)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: Sequence[Line] = ()
        self._shown: Sequence[Line] = ()

    @property
    def lines(self) -> Sequence[Line]:
        """What is shown, whether or not the filter lets it through."""
        return self._lines

    def show(self, lines: Sequence[Line], *, keep_place: bool = False) -> None:
        """Show these lines, from the first on unless the place is to be kept."""
        self._lines = lines
        self.filter_changed()
        if not keep_place:
            self.scroll_to(y=0, animate=False, force=True)

    def filter_changed(self) -> None:
        """Other words are asked for, or there are other lines."""
        if self.filter_text:
            self._shown = [line for line in self._lines if self.admits("".join(piece.text for piece in line))]
        else:
            self._shown = self._lines
        self.virtual_size = Size(1, len(self._shown) + self.filter_lines)
        self.refresh()

    def counts(self) -> tuple[int, int]:
        """Lines that are shown, and all."""
        return len(self._shown), len(self._lines)

    def action_scroll(self, pages: float) -> None:
        """So many pages, or a line when less than one is asked for."""
        rows = round(pages * max(1, self.size.height - 1)) if abs(pages) >= 0.5 else (1 if pages > 0 else -1)
        self.scroll_relative(y=rows, animate=False)

    def action_end(self, last: bool) -> None:
        """To the first line, or to the last."""
        self.scroll_to(y=len(self._shown) if last else 0, animate=False)

    def render_line(self, y: int) -> Strip:
        """One line as it stands on the screen."""
        palette = palette_of(self)
        width = self.scrollable_content_region.width
        if self.filter_lines and y == self.scrollable_content_region.height - 1:
            return self.filter_strip(width)
        row = y + self.scroll_offset.y
        pieces = self._shown[row] if row < len(self._shown) else ()
        ground = palette.background
        segments = [Segment(p.text, style(getattr(palette, p.role), ground, bold=p.bold)) for p in pieces]
        return Strip(segments).adjust_cell_length(width, style(palette.text, ground))
