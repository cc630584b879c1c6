"""A surface of braille dots to draw lines on, two dots wide and four high in each terminal cell.

The invariant: what is outside of the surface is cut off, never an error; a cell shows the dots of every line that goes
through it, in the colour of the one that was drawn last, and a mark in place of dots where one was set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

DOTS_ACROSS, DOTS_DOWN = 2, 4

_BRAILLE = 0x2800
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot of a cell, by row and column."""


class Stretch(NamedTuple):
    """Cells beside each other of one owner; -1 where nobody drew."""

    text: str
    owner: int


class Canvas:
    """A surface of `columns` x `rows` cells. Dots count from the upper left; an owner is the number of a line."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.width, self.height = columns * DOTS_ACROSS, rows * DOTS_DOWN
        self._bits = [bytearray(columns) for _ in range(rows)]
        self._owners = [[-1] * columns for _ in range(rows)]
        self._marks: dict[tuple[int, int], tuple[str, int]] = {}

    def dot(self, x: int, y: int, owner: int) -> None:
        """One dot."""
        if 0 <= x < self.width and 0 <= y < self.height:
            row, column = y >> 2, x >> 1
            self._bits[row][column] |= _BITS[y & 3][x & 1]
            self._owners[row][column] = owner

    def upright(self, x: int, first: int, last: int, owner: int) -> None:
        """A vertical line from one height to another, in either order."""
        if first > last:
            first, last = last, first
        if not 0 <= x < self.width:
            return
        column, side = x >> 1, x & 1
        for y in range(max(0, first), min(self.height - 1, last) + 1):
            self._bits[y >> 2][column] |= _BITS[y & 3][side]
            self._owners[y >> 2][column] = owner

    def line(self, x0: int, y0: int, x1: int, y1: int, owner: int) -> None:
        """A straight line from left to right (`x0 <= x1`)."""
        across = x1 - x0
        if across <= 1:
            middle = (y0 + y1) // 2
            self.upright(x0, y0, middle, owner)
            self.upright(x1, middle, y1, owner)
            return
        rise = (y1 - y0) / across
        before = y0
        for step in range(max(0, -x0), min(across, self.width - x0) + 1):
            here = round(y0 + rise * step)
            # Joined half way, so that a steep line has no holes.
            self.upright(x0 + step, before if step else y0, here, owner)
            before = here

    def mark(self, x: int, y: int, glyph: str, owner: int) -> None:
        """A glyph of one cell in the cell of this dot; the first one set there stays."""
        if 0 <= x < self.width and 0 <= y < self.height:
            self._marks.setdefault((y >> 2, x >> 1), (glyph, owner))

    def row(self, row: int) -> Iterator[Stretch]:
        """The cells of a row, from left to right."""
        bits, owners = self._bits[row], self._owners[row]
        text, owner = "", -1
        for column in range(self.columns):
            marked = self._marks.get((row, column))
            if marked is not None:
                cell, mine = marked
            else:
                cell, mine = (chr(_BRAILLE + bits[column]) if bits[column] else " "), owners[column]
            if mine != owner and text:
                yield Stretch(text, owner)
                text = ""
            owner = mine
            text += cell
        if text:
            yield Stretch(text, owner)
