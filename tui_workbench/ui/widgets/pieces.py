"""Pieces of colored text, and rows of pieces, from which lists and lines are drawn.

A piece names its color by a field of `Palette`, so that it suits every theme. Its text must be safe.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from textual.strip import Strip

from tui_workbench.ui.terminal.safetext import safe_text, truncate_end, truncate_middle
from tui_workbench.ui.themes.themes import Palette, style
from tui_workbench.ui.widgets.line_buffer import LineBuffer

MIN_TEXT_WIDTH = 20


class Piece(NamedTuple):
    """Safe text and its color: a field name of `Palette`. In a `Line`, a click calls `action`."""

    text: str
    role: str = "text"
    bold: bool = False
    action: Callable[[], object] | None = None


class Row(NamedTuple):
    """A row of a list. If the row is too wide, `name` is shortened in the middle, or at the end with `cut_at_end`."""

    key: str
    name: Piece
    before: tuple[Piece, ...] = ()
    after: tuple[Piece, ...] = ()
    right: tuple[Piece, ...] = ()  # pieces at the right edge
    cut_at_end: bool = False

    @property
    def text(self) -> str:
        return " ".join(piece.text for piece in (*self.before, self.name, *self.after, *self.right))


def width_of(pieces: Sequence[Piece]) -> int:
    """Return the width of the pieces in cells."""
    return sum(cell_len(piece.text) for piece in pieces)


def draw_pieces(pieces: Iterable[Piece], palette: Palette, background: str) -> list[Segment]:
    """Return the pieces as segments on a background color."""
    return [Segment(piece.text, style(getattr(palette, piece.role), background, bold=piece.bold)) for piece in pieces]


def draw_line(pieces: Iterable[Piece], width: int, palette: Palette, background: str) -> Strip:
    """Return the pieces as a line of `width` cells."""
    return Strip(draw_pieces(pieces, palette, background)).adjust_cell_length(width, style(palette.text, background))


def hanging(before: Sequence[Piece], text: str, width: int, role: str = "text") -> list[tuple[Piece, ...]]:
    """Wrap untrusted text. The first line follows `before`; the others are indented by its width."""
    indent = width_of(before)
    parts = textwrap.wrap(safe_text(text), max(width - indent - 1, MIN_TEXT_WIDTH), break_on_hyphens=False) or [""]
    blank = (Piece(" " * indent),)
    return [(*(blank if index else before), Piece(part, role)) for index, part in enumerate(parts)]


def wrap_pieces(line: Sequence[Piece], width: int, indent: int) -> list[tuple[Piece, ...]]:
    """Wrap a line at spaces into rows of at most `width` cells. All rows but the first are indented."""
    if width_of(line) <= width:
        return [tuple(line)]
    rows: list[list[Piece]] = [[]]
    used = 0
    for piece in line:
        for word in re.findall(r"\s*\S+|\s+", piece.text):
            for part in chop_cells(word, width - indent):
                text = part
                if used + cell_len(text) > width:
                    rows.append([Piece(" " * indent)])
                    text, used = part.lstrip(), indent
                rows[-1].append(piece._replace(text=text))
                used += cell_len(text)
    return [tuple(row) for row in rows]


def draw_row(row: Row, width: int, palette: Palette, background: str, *, plain: bool = False) -> Strip:
    """Return a row as a line of `width` cells. If `plain`, all pieces are bold and have the text color."""
    gap = 1 if row.right else 0
    room = width - 2 - gap - width_of((*row.before, *row.after, *row.right))
    shorten = truncate_end if row.cut_at_end else truncate_middle
    name = row.name._replace(text=shorten(row.name.text, max(1, room)))
    blank = Piece(" " * max(gap, gap + room - width_of((name,))))
    pieces = (Piece(" "), *row.before, name, *row.after, blank, *row.right, Piece(" "))
    if plain:
        pieces = tuple(Piece(piece.text, bold=True) for piece in pieces)
    return draw_line(pieces, width, palette, background)


def draw_typed(buffer: LineBuffer, room: int, palette: Palette, *, has_cursor: bool = True) -> list[Segment]:
    """Return the segments of a typed line in `room` cells. `has_cursor` is False while keys do not edit the line."""
    window = buffer.window(room)
    background = style(palette.text, palette.raised)
    text = style(palette.text, palette.selection) if buffer.is_fresh and has_cursor else background
    return [
        Segment(window.before, text),
        Segment(window.under, style(palette.background, palette.accent) if has_cursor else text),
        Segment(window.after, text),
        Segment(" " * (room - cell_len("".join(window))), background),
    ]
