"""Tabs in the border of a pane: `3 train.py ●  local.compute`. The active tab is always visible."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from textual.color import Color
from textual.content import Content
from textual.style import Style

from tui_workbench.ui.terminal.safetext import truncate_middle
from tui_workbench.ui.themes.themes import Palette

_GAP = "  "
_MAX_NAME = 32
_COUNTS = len("‹99 ") + len(" 99›")
"""Cells for the numbers of hidden tabs."""


class Label(NamedTuple):
    """The name of a tab (untrusted text) and its mark: `●` not saved, `✗` deleted, or nothing."""

    name: str
    mark: str = ""


class TabTitle(NamedTuple):
    """A title, and for each visible tab its first cell, the cell after its last cell, and its index."""

    content: Content
    spans: tuple[tuple[int, int, int], ...]

    def tab_at(self, column: int) -> int | None:
        return next((index for start, end, index in self.spans if start <= column < end), None)


def tab_title(number: int, labels: Sequence[Label], active: int, width: int, palette: Palette) -> TabTitle:
    """Make the title of at most `width` cells."""
    muted, loud = Style(foreground=Color.parse(palette.muted)), Style(foreground=Color.parse(palette.text), bold=True)
    mark_style = Style(foreground=Color.parse(palette.warning))
    head = f"{number} "
    longest = max(min(_MAX_NAME, width - len(head) - _COUNTS - len(" ●")), 4)
    names = [truncate_middle(label.name, longest) for label in labels]
    marks = [f" {label.mark}" if label.mark else "" for label in labels]
    sizes = [cell_len(name + mark) for name, mark in zip(names, marks, strict=True)]
    first, last = _visible(sizes, active, width - len(head))
    before = f"‹{first} " if first else ""
    parts: list[str | tuple[str, Style]] = [head, (before, muted)]
    column, spans = len(head + before), []
    for index in range(first, last):
        parts += [(names[index], loud if index == active else muted), (marks[index], mark_style)]
        parts.append(_GAP if index < last - 1 else "")
        spans.append((column, column + sizes[index], index))
        column += sizes[index] + len(_GAP)
    if last < len(labels):
        parts.append((f" {len(labels) - last}›", muted))
    return TabTitle(Content.assemble(*parts), tuple(spans))


def _visible(sizes: Sequence[int], active: int, width: int) -> tuple[int, int]:
    """Return the range of tabs that fit around the active tab."""
    room = width - sizes[active] - _COUNTS
    if sum(sizes) + len(_GAP) * (len(sizes) - 1) <= width:
        return 0, len(sizes)
    first, last = active, active + 1
    while True:
        if last < len(sizes) and sizes[last] + len(_GAP) <= room:
            room -= sizes[last] + len(_GAP)
            last += 1
        elif first and sizes[first - 1] + len(_GAP) <= room:
            first -= 1
            room -= sizes[first] + len(_GAP)
        else:
            return first, last


def short_names(paths: Sequence[str]) -> list[str]:
    """Return the file name of each path, preceded by folders where names would be equal."""
    names = [os.path.basename(path) for path in paths]
    parts = [path.split(os.sep) for path in paths]
    depth = 1
    while len(set(names)) < len(names) and depth < max(map(len, parts)):
        depth += 1
        repeated = {name for name in names if names.count(name) > 1}
        names = [
            os.sep.join(own[-depth:]) if name in repeated else name for name, own in zip(names, parts, strict=True)
        ]
    return names
