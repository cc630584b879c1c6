"""Draw log lines with their colors, and over them search matches, the marked line and the selection.

The text is already safe; it is cut to the width, never interpreted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from rich.cells import cell_len, get_character_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.selection import Selection
from textual.strip import Strip

from tui_workbench.runs.logs.log_search import Pattern
from tui_workbench.ui.logs.log_viewport import Row
from tui_workbench.ui.terminal.safetext import truncate_middle
from tui_workbench.ui.themes.themes import Palette, style

CONTINUES = "›"  # in the last cell of a line that continues to the right


class Look(NamedTuple):
    """The styles of a log in one theme."""

    text: Style
    chosen: Style
    match: Style
    chosen_match: Style
    quiet: Style
    noted: Style


@lru_cache(8)
def look_of(palette: Palette) -> Look:
    """Return the styles of a log in the colors of a theme."""
    ground = palette.background
    return Look(
        text=style(palette.text, ground),
        chosen=style(palette.text, palette.marked),
        match=style(palette.text, palette.selected),
        chosen_match=style(ground, palette.warning),
        quiet=style(palette.muted, ground),
        noted=style(palette.warning, ground),
    )


Layer = tuple[int, int, Style]  # a span of characters (first, end) and its style


class Picture(NamedTuple):
    """The data to draw the visible part of a log."""

    rows: tuple[Row, ...]
    width: int
    height: int
    left: int = 0  # number of cells that are scrolled out of view at the left
    gutter: int = 0  # number of cells for line numbers
    top_number: int | None = None  # number of the first row's line, from 0
    pattern: Pattern | None = None
    chosen: int = -1  # offset of the marked line
    selection: Selection | None = None
    selection_style: Style = Style.null()
    placeholder: tuple[str, ...] = ()  # shown in the middle of an empty log
    notes: Mapping[int, str] = {}  # notes beside lines, keyed by the offset of a byte in the line

    def segments(self, y: int, look: Look) -> list[Segment]:
        """Draw one row of the screen, in exactly `width` cells."""
        if y >= len(self.rows):
            return self._below_rows(y, look)
        row = self.rows[y]
        plain = row.line.text.plain
        is_chosen = row.line.start == self.chosen
        layers: list[Layer] = [*row.line.text.spans]
        if self.pattern is not None:
            marking = look.chosen_match if is_chosen else look.match
            layers += [(first, last, marking) for first, last in self.pattern.spans(row.line.plain)]
        if self.selection is not None and (span := self.selection.get_span(row.line.start)) is not None:
            layers.append((span[0], len(plain) if span[1] < 0 else span[1], self.selection_style))
        base = look.chosen if is_chosen else look.text
        note = self._note(row)
        room = self.width - self.gutter - cell_len(note)
        segments = draw_row(row, room, self.left, base, look.quiet, layers)
        if note:
            segments.append(Segment(note, look.noted))
        return [Segment(self._number(y), look.quiet), *segments] if self.gutter else segments

    def _note(self, row: Row) -> str:
        """Return the note beside a row, cut to half of the row; "" without a note."""
        texts = [text for offset, text in self.notes.items() if row.line.start <= offset < row.line.end]
        if not texts or not row.starts_line:
            return ""
        return truncate_middle(f" ◂ {texts[-1]}", (self.width - self.gutter) // 2)

    def _number(self, y: int) -> str:
        if self.top_number is None or not self.rows[y].starts_line:
            return " " * self.gutter
        number = self.top_number + sum(row.starts_line for row in self.rows[1 : y + 1])
        return f"{number + 1:>{self.gutter - 1}} "

    def _below_rows(self, y: int, look: Look) -> list[Segment]:
        lines = () if self.rows else self.placeholder
        index = y - max(0, (self.height - len(lines)) // 2)
        text = truncate_middle(lines[index], self.width) if 0 <= index < len(lines) else ""
        before = " " * ((self.width - cell_len(text)) // 2)
        return Segment.adjust_line_length([Segment(before + text, look.quiet)], self.width, look.quiet)

    def strip_with_places(self, y: int, look: Look) -> Strip:
        """Draw one row. Each segment records the line, by its byte offset, and the characters that it shows."""
        segments = self.segments(y, look)
        if y >= len(self.rows):
            return Strip(segments)
        row = self.rows[y]
        numbers = 1 if self.gutter else 0
        first = _cut_left(row.line.text.plain, row, self.left)[0]
        return Strip([*segments[:numbers], *Strip(segments[numbers:]).apply_offsets(first, row.line.start)])


def draw_row(row: Row, width: int, left: int, base: Style, quiet: Style, layers: Sequence[Layer]) -> list[Segment]:
    """Draw a row in exactly `width` cells, from its cell `left` on."""
    plain = row.line.text.plain
    first, gap = _cut_left(plain, row, left) if left else (row.first, 0)
    if not layers and plain.isascii():
        text = plain[first : min(row.last, first + width)]
        if row.last - first > width:
            return [Segment(text[:-1], base), Segment(CONTINUES, quiet)]
        return [Segment(text.ljust(width), base)]
    # Combining characters take no cell, so up to four characters per cell are taken.
    last = min(row.last, first + 4 * width)
    segments = _segments(plain, first, last, base, layers)
    if gap:
        segments.insert(0, Segment(" " * gap, base))
    cells = gap + cell_len(plain[first:last])
    if cells > width:
        return [*Segment.adjust_line_length(segments, width - 1, base), Segment(CONTINUES, quiet)]
    if cells < width:
        segments.append(Segment(" " * (width - cells), base))
    return segments


def _segments(plain: str, first: int, last: int, base: Style, layers: Sequence[Layer]) -> list[Segment]:
    """Draw the characters `first` to `last`, split where a layer begins or ends. Later layers cover earlier layers."""
    cuts = {first, last}
    inside = []
    for start, end, layer in layers:
        start, end = max(first, start), min(last, end)
        if start < end:
            cuts.update((start, end))
            inside.append((start, end, layer))
    segments = []
    for start, end in pairwise(sorted(cuts)):
        look = base
        for layer_start, layer_end, layer in inside:
            if layer_start <= start and end <= layer_end:
                look = _over(look, layer)
        segments.append(Segment(plain[start:end], look))
    return segments


@lru_cache(4096)
def _over(below: Style, above: Style) -> Style:
    return below + above


def _cut_left(plain: str, row: Row, left: int) -> tuple[int, int]:
    """Return the index of the first character at or after the cell `left`, and the number of blank cells before it."""
    if plain.isascii():
        return min(row.first + left, row.last), 0
    used = 0
    for index in range(row.first, row.last):
        size = get_character_cell_size(plain[index])
        if used >= left and size:
            return index, used - left
        used += size
    return row.last, 0
