"""Pieces of coloured text, and rows made of them: what lists and lines are drawn from.

Colours are named by what they mean (a field of `Palette`), so that a piece is the same in every theme. Whatever is
not ours was made safe before it became a piece.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip

from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.themes.themes import Palette, style
from tui_workbench.ui.widgets.line_buffer import LineBuffer

LEAST_TEXT = 20
"""Cells that wrapped text gets at least."""


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


def draw_pieces(pieces: Iterable[Piece], palette: Palette, ground: str) -> list[Segment]:
    """The pieces on the colour `ground`."""
    return [Segment(piece.text, style(getattr(palette, piece.role), ground, bold=piece.bold)) for piece in pieces]


def draw_line(pieces: Iterable[Piece], width: int, palette: Palette, ground: str) -> Strip:
    """The pieces as a line of `width` cells on the colour `ground`."""
    return Strip(draw_pieces(pieces, palette, ground)).adjust_cell_length(width, style(palette.text, ground))


def hanging(before: Sequence[Piece], text: str, width: int, role: str = "text") -> list[tuple[Piece, ...]]:
    """A text of any origin in lines of a width: the first one behind `before`, the others below its text."""
    indent = width_of(before)
    parts = textwrap.wrap(safe_text(text), max(width - indent - 1, LEAST_TEXT), break_on_hyphens=False) or [""]
    blank = (Piece(" " * indent),)
    return [(*(blank if place else before), Piece(part, role)) for place, part in enumerate(parts)]


def draw_row(row: Row, width: int, palette: Palette, ground: str, *, plain: bool = False) -> Strip:
    """A row in `width` cells on the colour `ground`; with `plain` all of it in the text colour."""
    gap = 1 if row.right else 0
    room = width - 2 - gap - width_of((*row.before, *row.after, *row.right))
    name = row.name._replace(text=truncate_middle(row.name.text, max(1, room)))
    blank = Piece(" " * max(gap, gap + room - width_of((name,))))
    pieces = (Piece(" "), *row.before, name, *row.after, blank, *row.right, Piece(" "))
    if plain:
        pieces = tuple(Piece(piece.text, bold=True) for piece in pieces)
    return draw_line(pieces, width, palette, ground)


def draw_typed(buffer: LineBuffer, room: int, palette: Palette, *, has_cursor: bool = True) -> list[Segment]:
    """A line that is being typed, with its cursor unless its keys go elsewhere, in `room` cells."""
    window = buffer.window(room)
    ground = style(palette.text, palette.raised)
    text = style(palette.text, palette.selection) if buffer.is_fresh and has_cursor else ground
    return [
        Segment(window.before, text),
        Segment(window.under, style(palette.background, palette.accent) if has_cursor else text),
        Segment(window.after, text),
        Segment(" " * (room - cell_len("".join(window))), ground),
    ]
