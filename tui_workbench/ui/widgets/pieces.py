"""Pieces of coloured text, and rows made of them: what lists and lines are drawn from.

Colours are named by what they mean (a field of `Palette`), so that a piece is the same in every theme. Whatever is
not ours was made safe before it became a piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip

from tui_workbench.ui.safetext import truncate_middle
from tui_workbench.ui.themes import style

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tui_workbench.ui.themes import Palette


class Piece(NamedTuple):
    """Some text and the colour it is drawn in: a field name of `Palette`. The text must be safe already.

    `action` is called when the piece is clicked; only a `Line` looks at it.
    """

    text: str
    role: str = "text"
    bold: bool = False
    action: Callable[[], None] | None = None


class Row(NamedTuple):
    """One row. `key` names it among the rows; `name` is what gives way, cut in its middle, when the row is too wide."""

    key: str
    name: Piece
    before: tuple[Piece, ...] = ()
    after: tuple[Piece, ...] = ()
    right: tuple[Piece, ...] = ()  # at the right edge

    @property
    def text(self) -> str:
        """All that it says."""
        return " ".join(piece.text for piece in (*self.before, self.name, *self.after, *self.right))


def width_of(pieces: Sequence[Piece]) -> int:
    """The terminal cells that the pieces take."""
    return sum(cell_len(piece.text) for piece in pieces)


def draw_row(row: Row, width: int, palette: Palette, ground: str, *, plain: bool = False) -> Strip:
    """A row in `width` cells on the colour `ground`; with `plain` all of it in the text colour."""
    right = sum(cell_len(piece.text) for piece in row.right)
    fixed = sum(cell_len(piece.text) for piece in (*row.before, *row.after))
    room = width - 2 - right - fixed - (1 if right else 0)
    name = row.name._replace(text=truncate_middle(row.name.text, max(1, room)))
    segments = [Segment(" ", style(palette.text, ground))]
    for piece in (*row.before, name, *row.after):
        segments.append(_segment(piece, palette, ground, plain))
    gap = max(1 if right else 0, room - cell_len(name.text) + (1 if right else 0))
    segments.append(Segment(" " * gap, style(palette.text, ground)))
    segments.extend(_segment(piece, palette, ground, plain) for piece in row.right)
    segments.append(Segment(" ", style(palette.text, ground)))
    return Strip(segments).adjust_cell_length(width, style(palette.text, ground))


def _segment(piece: Piece, palette: Palette, ground: str, plain: bool) -> Segment:
    color = palette.text if plain else getattr(palette, piece.role)
    return Segment(piece.text, style(color, ground, bold=piece.bold or plain))
