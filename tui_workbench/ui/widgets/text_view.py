"""A scrollable view of lines of pieces, for readmes, plans, previews and diffs. Only visible lines are drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.geometry import Size
from textual.strip import Strip

from tui_workbench.ui.commands.main_commands import LIST_FILTER
from tui_workbench.ui.commands.screen_commands import LINES, READER
from tui_workbench.ui.terminal.textual_internals import set_bindings
from tui_workbench.ui.themes.themes import Palette
from tui_workbench.ui.widgets.filterable import Filterable
from tui_workbench.ui.widgets.pieces import Piece, draw_line, wrap_pieces

Line = tuple[Piece, ...]

MIN_WIDTH = 20
INDENT = 6  # cells before a row that continues a line


class TextView(Filterable, can_focus=True, inherit_bindings=False):
    """A scrollable text with a filter."""

    heading = "In the text"
    DEFAULT_CSS = """
    TextView { padding: 0 1; scrollbar-gutter: stable; }
    TextView.-fitted { height: auto; padding: 0; }
    """
    BINDINGS = READER.bindings + LIST_FILTER.bindings

    def __init__(
        self,
        *,
        id: str | None = None,
        make: Callable[[int], Sequence[Sequence[Piece]]] | None = None,
        wraps: bool = False,
    ) -> None:
        """`make` returns the lines for a width. With `make`, the height of the view is the number of lines.

        With `wraps`, lines that are too long continue in the next row.
        """
        super().__init__(id=id)
        self.wraps = wraps
        self._source: Sequence[Sequence[Piece]] = ()
        self._lines: Sequence[Sequence[Piece]] = ()
        self._shown: Sequence[Sequence[Piece]] = ()
        self._make = make
        if make is not None:
            self.add_class("-fitted")
            set_bindings(self, LINES.bindings + LIST_FILTER.bindings)

    @property
    def lines(self) -> Sequence[Sequence[Piece]]:
        """All lines, without the filter."""
        return self._lines

    def show(self, lines: Sequence[Sequence[Piece]], *, keep_place: bool = False) -> None:
        """Show these lines, scrolled to the first line unless `keep_place`."""
        self._source = self._lines = lines
        if self.wraps:
            width = max(self.scrollable_content_region.width, MIN_WIDTH)
            self._lines = [row for line in lines for row in wrap_pieces(line, width, INDENT)]
        self.filter_changed()
        if not keep_place:
            self.scroll_to(y=0, animate=False, force=True)

    def rebuild(self) -> None:
        if self._make is not None:
            self.show(self._make(max(self.scrollable_content_region.width, MIN_WIDTH)), keep_place=True)
        elif self.wraps:
            self.show(self._source, keep_place=True)

    def on_resize(self) -> None:
        self.rebuild()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.lines) + self.filter_lines

    def filter_changed(self) -> None:
        self._shown = self._lines
        if self.filter_text:
            self._shown = [line for line in self._lines if self.admits("".join(piece.text for piece in line))]
        self.fit()
        if self._make is not None:
            self.refresh(layout=True)

    def counts(self) -> tuple[int, int]:
        return len(self._shown), len(self._lines)

    def action_scroll(self, pages: float) -> None:
        # Pages overlap by a line; less than half a page scrolls by a line.
        rows = round(pages * max(1, self.size.height - 1)) if abs(pages) >= 0.5 else (1 if pages > 0 else -1)
        self.scroll_relative(y=rows, animate=False)

    def action_end(self, last: bool) -> None:
        self.scroll_to(y=len(self._shown) if last else 0, animate=False)

    def draw(self, row: int, width: int, palette: Palette) -> Strip:
        return draw_line(self._shown[row] if row < len(self._shown) else (), width, palette, palette.background)
