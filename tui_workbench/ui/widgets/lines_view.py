"""Lines of coloured text that are read: scrolled by keys and mouse, wrapped to the width by who gives them.

The invariant: it draws what it was given and knows nothing about it; the text is safe already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui_workbench.ui.commands import LIST_FILTER, bindings
from tui_workbench.ui.dialog_commands import LINES
from tui_workbench.ui.themes import palette_of, style
from tui_workbench.ui.widgets.filterable import Filterable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.binding import BindingType

    from tui_workbench.ui.widgets.pieces import Piece


MIN_WIDTH = 20


class LinesView(ScrollView, Filterable, can_focus=True, inherit_bindings=False):
    """Shows the lines that `make` gives for a width; it is as high as they are, where there is room."""

    DEFAULT_CSS = "LinesView { height: auto; overflow-x: hidden; scrollbar-size: 1 1; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings(LINES, LIST_FILTER)

    def __init__(self, make: Callable[[int], Sequence[Sequence[Piece]]]) -> None:
        super().__init__()
        self._make = make
        self._lines: Sequence[Sequence[Piece]] = ()
        self._shown: Sequence[Sequence[Piece]] = ()

    def rebuild(self) -> None:
        """There are other lines than before."""
        self._lines = self._make(max(self.scrollable_content_region.width, MIN_WIDTH))
        self.filter_changed()

    def filter_changed(self) -> None:
        """Other words are asked for, or there are other lines."""
        if self.filter_text:
            self._shown = [line for line in self._lines if self.admits("".join(piece.text for piece in line))]
        else:
            self._shown = self._lines
        self.virtual_size = Size(0, len(self._shown) + self.filter_lines)
        self.refresh(layout=True)

    def counts(self) -> tuple[int, int]:
        """Lines that are shown, and all."""
        return len(self._shown), len(self._lines)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as there are."""
        return len(self._lines) + self.filter_lines

    def on_resize(self) -> None:
        """Another width wraps otherwise."""
        self.rebuild()

    def action_move(self, lines: int) -> None:
        """Scroll by lines."""
        self.scroll_relative(y=lines, animate=False)

    def action_page(self, pages: int) -> None:
        """Scroll by pages; a line of each stays."""
        self.scroll_relative(y=pages * max(1, self.size.height - 1), animate=False)

    def render_line(self, y: int) -> Strip:
        """One line."""
        palette = palette_of(self)
        width = self.scrollable_content_region.width
        blank = style(palette.text, palette.background)
        if self.filter_lines and y == self.scrollable_content_region.height - 1:
            return self.filter_strip(width)
        row = y + self.scroll_offset.y
        pieces = self._shown[row] if row < len(self._shown) else ()
        segments = [
            Segment(piece.text, style(getattr(palette, piece.role), palette.background, bold=piece.bold))
            for piece in pieces
        ]
        return Strip(segments).adjust_cell_length(width, blank)
