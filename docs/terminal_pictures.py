"""Draw the screen of a terminal as an SVG picture."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple
from xml.sax.saxutils import escape

from pyte.screens import Char

from benchmarks.terminal import Terminal

CELL_WIDTH, CELL_HEIGHT, FONT_SIZE = 8.4, 16.5, 14
GAP = 12
"""Pixels between the screens of a picture."""

GROUND, TEXT = "14171c", "d8dce2"
NAMED = {
    "black": "000000", "red": "cd3131", "green": "0dbc79", "brown": "e5e510", "blue": "2472c8", "magenta": "bc3fbc",
    "cyan": "11a8cd", "white": "e5e5e5",
}  # fmt: skip


def color(name: str, default: str) -> str:
    """Convert a terminal color to six hexadecimal digits."""
    return default if name == "default" else NAMED.get(name.removeprefix("bright"), name)


class Style(NamedTuple):
    """The style of a cell."""

    ground: str
    text: str
    bold: bool
    italics: bool
    underscore: bool


def style_of(cell: Char) -> Style:
    """Return the style of a cell. The colors of a reversed cell are swapped."""
    ground, text = color(cell.bg, GROUND), color(cell.fg, TEXT)
    if cell.reverse:
        ground, text = text, ground
    return Style(ground, text, cell.bold, cell.italics, cell.underscore)


class Drawing(NamedTuple):
    """A screen as SVG elements, with its size in pixels."""

    elements: list[str]
    width: float
    height: float


def draw(terminal: Terminal, home: str) -> Drawing:
    """Draw the screen with `~` for `home`."""
    screen = terminal.screen
    rows = ([screen.buffer[row][column] for column in range(screen.columns)] for row in range(screen.lines))
    return draw_rows([abbreviate_home(row, home) for row in rows])


def draw_rows(rows: Sequence[Sequence[Char]]) -> Drawing:
    """Draw the cells of a screen. All rows have the same length."""
    width, height = len(rows[0]) * CELL_WIDTH + 16, len(rows) * CELL_HEIGHT + 16
    elements = [f'<rect width="{width:.0f}" height="{height:.0f}" rx="6" fill="#{GROUND}"/>']
    for number, row in enumerate(rows):
        elements += drawn_row(row, 8 + number * CELL_HEIGHT)
    return Drawing(elements, width, height)


def svg(drawings: Sequence[Drawing]) -> str:
    """Return screens, one below the other, as a self-contained SVG picture."""
    height = sum(drawing.height for drawing in drawings) + GAP * (len(drawings) - 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {drawings[0].width:.0f} {height:.0f}" '
        f'font-family="DejaVu Sans Mono,Menlo,Consolas,monospace" font-size="{FONT_SIZE}">'
    ]
    top = 0.0
    for drawing in drawings:
        parts += [f'<g transform="translate(0 {top:.1f})">', *drawing.elements, "</g>"]
        top += drawing.height + GAP
    return "\n".join([*parts, "</svg>"]) + "\n"


def abbreviate_home(cells: list[Char], home: str) -> list[Char]:
    """Replace `home` by `~` in a row and keep its length."""
    start = "".join(cell.data for cell in cells).find(home)
    if start < 0:
        return cells
    rest = cells[start + len(home) :]
    return [*cells[:start], cells[start]._replace(data="~"), *rest, *[rest[-1]] * (len(home) - 1)]


def drawn_row(cells: Sequence[Char], top: float) -> Iterator[str]:
    """Draw a row: the backgrounds, then the texts."""
    runs = []
    column = 0
    for each, group in groupby(cells, key=style_of):
        text = "".join(cell.data for cell in group)
        runs.append((column, each, text))
        column += len(text)
    for start, each, text in runs:
        if each.ground != GROUND:
            place = f'x="{8 + start * CELL_WIDTH:.1f}" y="{top:.1f}" width="{len(text) * CELL_WIDTH:.1f}"'
            yield f'<rect {place} height="{CELL_HEIGHT}" fill="#{each.ground}"/>'
    for start, each, text in runs:
        style = ' font-weight="bold"' * each.bold + ' font-style="italic"' * each.italics
        style += ' text-decoration="underline"' * each.underscore
        # Viewers draw repeated spaces differently.
        for found in re.finditer(r"\S+(?: \S+)*", text):
            x, width = 8 + (start + found.start()) * CELL_WIDTH, len(found[0]) * CELL_WIDTH
            place = f'x="{x:.1f}" y="{top + 13:.1f}" textLength="{width:.1f}"'
            yield f'<text {place} fill="#{each.text}"{style}>{escape(found[0])}</text>'
