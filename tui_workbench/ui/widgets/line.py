"""A widget of one line that is drawn from pieces: the base of header, footer, tab row and the like.

It repaints when what it shows has changed, and then only its line: nothing is laid out anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual import events, on
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.ui.jump import Place
from tui_workbench.ui.themes import palette_of, style
from tui_workbench.ui.widgets.pieces import Piece, width_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tui_workbench.ui.themes import Palette


class Line(Widget, inherit_bindings=False):
    """One line. Subclasses say what is in it for a width."""

    DEFAULT_CSS = "Line { height: 1; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._clickable: list[tuple[int, int, Callable[[], None]]] = []

    def choose_ground(self) -> str:
        """The field of the palette that the line stands on."""
        return "raised"

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        """What stands at the left and what at the right edge; the right gives way where both do not fit."""
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        """The line as it stands on the screen."""
        palette = palette_of(self)
        ground = getattr(palette, self.choose_ground())
        width = self.size.width
        left, right = self.pieces(width)
        self._clickable.clear()
        segments = self._draw(left, 0, palette, ground)
        gap = width - width_of(left) - width_of(right)
        if right and gap >= 1:
            segments.append(Segment(" " * gap, style(palette.text, ground)))
            segments.extend(self._draw(right, width - width_of(right), palette, ground))
        return Strip(segments).adjust_cell_length(width, style(palette.text, ground))

    def _draw(self, pieces: Sequence[Piece], start: int, palette: Palette, ground: str) -> list[Segment]:
        segments = []
        for piece in pieces:
            end = start + width_of((piece,))
            if piece.action is not None:
                self._clickable.append((start, end, piece.action))
            segments.append(Segment(piece.text, style(getattr(palette, piece.role), ground, bold=piece.bold)))
            start = end
        return segments

    def click_places(self) -> list[Place]:
        """Where the pieces begin that can be clicked, and what a click there does."""
        return [Place(self.region.x + start, self.region.y, action) for start, _, action in self._clickable]

    def on_focus(self) -> None:
        """A line that can have the focus looks different with it."""
        self.refresh()

    def on_blur(self) -> None:
        """A line that can have the focus looks different without it."""
        self.refresh()

    @on(events.Click)
    def _piece_clicked(self, event: events.Click) -> None:
        for start, end, action in self._clickable:
            if start <= event.x < end:
                event.stop()
                action()
                return
