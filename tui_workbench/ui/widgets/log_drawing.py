"""How one row of a log is drawn: the log's own colours, and over them what is looked for, chosen and selected.

The text is safe already; here it is cut to the width, never interpreted.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len, get_character_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tui_workbench.ui.themes import style

if TYPE_CHECKING:
    from tui_workbench.runs.logsearch import Pattern
    from tui_workbench.ui.themes import Palette
    from tui_workbench.ui.widgets.log_viewport import Row

CONTINUES = "›"
"""Stands in the last cell of a line that goes on to the right."""


class Look(NamedTuple):
    """The styles of a log in one theme."""

    text: Style
    chosen: Style
    match: Style
    chosen_match: Style
    quiet: Style


@lru_cache(8)
def look_of(palette: Palette) -> Look:
    """The styles for the colours of a theme."""
    ground = palette.background
    return Look(
        text=style(palette.text, ground),
        chosen=style(palette.text, palette.marked),
        match=style(palette.text, palette.selected),
        chosen_match=style(ground, palette.warning),
        quiet=style(palette.muted, ground),
    )


class Overlay(NamedTuple):
    """What is drawn over the rows of one picture."""

    pattern: Pattern | None = None
    chosen: int = -1
    """Offset of the line that is chosen."""


class Selected(NamedTuple):
    """The characters of a row's line that are selected, and how that looks; `last` -1 is the end of the line."""

    first: int
    last: int
    style: Style


def draw_row(row: Row, width: int, left: int, look: Look, overlay: Overlay, selected: Selected | None = None) -> Strip:
    """The row in `width` cells, from its cell `left` on."""
    chosen = row.line.start == overlay.chosen
    base = look.chosen if chosen else look.text
    plain = row.line.text.plain
    layers: list[tuple[int, int, Style]] = [*row.line.text.spans]
    if overlay.pattern is not None:
        marking = look.chosen_match if chosen else look.match
        layers.extend((first, last, marking) for first, last in overlay.pattern.spans(row.line.plain))
    if selected is not None:
        layers.append((selected.first, len(plain) if selected.last < 0 else selected.last, selected.style))
    first, gap = _cut_left(plain, row, left) if left else (row.first, 0)
    if not layers and plain.isascii():
        text = plain[first : min(row.last, first + width)]
        strip = Strip([Segment(text.ljust(width), base)], width)
    else:
        # Not every character takes a cell: marks combine with the one before.
        segments = _segments(plain, first, min(row.last, first + 4 * width), base, layers)
        strip = Strip([Segment(" " * gap, base), *segments] if gap else segments).adjust_cell_length(width, base)
    return _with_edge(strip, width, look) if _goes_on(plain, first, row.last, width) else strip


def first_shown(row: Row, left: int) -> int:
    """The first character of the row's line that is shown when `left` cells are passed over."""
    return _cut_left(row.line.text.plain, row, left)[0]


def _segments(plain: str, first: int, last: int, base: Style, layers: list[tuple[int, int, Style]]) -> list[Segment]:
    """The characters `first` to `last`, cut wherever a layer begins or ends; later layers lie over earlier ones."""
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


def _goes_on(plain: str, first: int, last: int, width: int) -> bool:
    if last - first <= width // 2:
        return False
    shown = plain[first:last]
    if shown.isascii():
        return len(shown) > width
    return cell_len(shown[: 4 * width]) > width


def _with_edge(strip: Strip, width: int, look: Look) -> Strip:
    return Strip([*strip.crop(0, width - 1), Segment(CONTINUES, look.quiet)], width)


def _cut_left(plain: str, row: Row, left: int) -> tuple[int, int]:
    """The first character that begins at or behind the cell `left` of the row, and the cells left free before it."""
    if plain.isascii():
        return min(row.first + left, row.last), 0
    used = 0
    for index in range(row.first, row.last):
        size = get_character_cell_size(plain[index])
        if used >= left and size:
            return index, used - left
        used += size
    return row.last, 0
