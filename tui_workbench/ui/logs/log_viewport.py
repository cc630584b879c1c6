"""Which lines of a log are seen: an anchor in bytes, and the rows that fit below it.

The anchor is the byte offset of the first line shown and, where lines wrap, which of its rows; so it stays on its text
while the log grows, needs no count of lines, and costs the same anywhere in a file of any size. A pinned viewport shows
the end, whatever comes. Knows no screen; used by one thread at a time.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from rich.cells import get_character_cell_size
from textual.selection import Selection

from tui_workbench.runs.logs.log_file import LogFile, LogLine
from tui_workbench.ui.terminal.safetext import GLYPH_STYLE, SafeLine, safe_line

_CACHED_BYTES = 1 << 20
"""Bytes of lines whose shown form is kept: some screens full, and bounded where lines are long."""

MOST_LINES = 20_000
"""Lines that one copy takes; no clipboard is made for more, and reading them takes some 20 ms."""

_PAGE = 1_000


class ShownLine(NamedTuple):
    """One line in its shown form."""

    start: int
    """Byte offset of the line."""
    end: int
    """Byte offset behind it."""
    text: SafeLine
    """What is shown of it, the note included."""
    note: str = ""
    """What stands behind it without being in the file: how much of it is not shown."""

    @property
    def plain(self) -> str:
        """What is shown of it, without the note."""
        return self.text.plain[: len(self.text.plain) - len(self.note)]


class Row(NamedTuple):
    """One row of the screen: the characters `first` to `last` of a line."""

    line: ShownLine
    first: int
    last: int

    @property
    def starts_line(self) -> bool:
        """True for the first row of a line."""
        return self.first == 0


class Anchor(NamedTuple):
    """The row at the top: a line by its byte offset, and which of its rows. Anchors of one width compare in order."""

    offset: int = 0
    row: int = 0


class Viewport:
    """What of a log is shown. After `LogFile.poll` call `refresh`; the rows are those of the last call of anything."""

    def __init__(self, log: LogFile) -> None:
        self.log = log
        self.width = 80
        self.height = 0
        self.wrap = False
        self.top = Anchor()
        self.pinned = True
        """True while the end is to be shown, whatever comes."""
        self._generation = log.generation
        self._shown: dict[tuple[int, int], ShownLine] = {}
        self._shown_bytes = 0

    def _forget_shown(self) -> None:
        self._shown.clear()
        self._shown_bytes = 0

    def resize(self, width: int, height: int) -> None:
        """Another size, in cells. What was at the top stays there, unless the end is pinned or comes into view."""
        width = max(1, width)
        if self.wrap and width != self.width:
            self.top = Anchor(self.top.offset)
        self.width, self.height = width, max(0, height)
        self._settle()

    def set_wrap(self, wrap: bool) -> None:
        """Whether long lines go on in the next row."""
        self.wrap = wrap
        self.top = Anchor(self.top.offset)
        self._settle()

    def _settle(self) -> None:
        self.top = self._end() if self.pinned else min(self.top, self._end())

    def refresh(self) -> None:
        """The log may be another than before: keep the anchor, or the end if it is pinned."""
        if self._generation != self.log.generation:
            self._generation = self.log.generation
            self._forget_shown()
            self.top = Anchor()
            self.pinned = True
        if self.pinned:
            self._settle()

    def move(self, rows: int) -> None:
        """Goes some rows down, or up when negative. Reaching the end pins it; leaving it unpins."""
        if rows < 0:
            self.top = self._back(self.top, -rows)
            self.pinned = self.pinned and self.top >= self._end()
        elif rows > 0 and not self.pinned:
            self._go_down_to(self._forward(self.top, rows))

    def go_to_start(self) -> None:
        """The first line at the top."""
        self.top = Anchor()
        self.pinned = self._end() <= self.top

    def go_to_end(self) -> None:
        """The last line at the bottom, from now on."""
        self.pinned = True
        self.refresh()

    def go_to(self, offset: int) -> None:
        """The line that starts at the offset at the top, or as near to it as the end allows."""
        self.pinned = False
        self._go_down_to(Anchor(offset))

    def return_to(self, anchor: Anchor) -> None:
        """Where one was before, or as near to it as the end allows; unpins."""
        self.top = anchor
        self.pinned = False
        self._settle()

    def reveal(self, offset: int) -> None:
        """The line that starts at the offset somewhere in view, with some lines before it; unpins."""
        if not any(row.line.start == offset and row.starts_line for row in self.rows()):
            self.show_below(offset, self.height // 3)
        self.pinned = False

    def show_below(self, offset: int, rows: int) -> None:
        """The line that starts at the offset with so many rows before it, or as near as the end allows; unpins."""
        self.top = min(self._back(Anchor(offset), rows), self._end())
        self.pinned = False

    def _go_down_to(self, anchor: Anchor) -> None:
        end = self._end()
        self.pinned = anchor >= end
        self.top = min(anchor, end)

    def rows(self) -> tuple[Row, ...]:
        """What is seen, from the top."""
        rows: list[Row] = []
        for line in self.log.lines_from(self.top.offset, self.height):
            rows.extend(self._rows_of(line))
            if len(rows) - self.top.row >= self.height:
                break
        return tuple(rows[self.top.row : self.top.row + self.height])

    def _end(self) -> Anchor:
        """The anchor with which the last line stands at the bottom."""
        return self._back(Anchor(self.log.size), self.height)

    def _back(self, anchor: Anchor, rows: int) -> Anchor:
        if rows <= anchor.row:
            return Anchor(anchor.offset, anchor.row - rows)
        rows -= anchor.row
        for line in reversed(self.log.lines_before(anchor.offset, rows)):
            count = len(self._rows_of(line)) if self.wrap else 1
            if count >= rows:
                return Anchor(line.start, count - rows)
            rows -= count
        return Anchor()

    def _forward(self, anchor: Anchor, rows: int) -> Anchor:
        rows += anchor.row
        offset = anchor.offset
        for line in self.log.lines_from(anchor.offset, rows + 1):
            count = len(self._rows_of(line)) if self.wrap else 1
            offset = line.start
            if count > rows:
                return Anchor(offset, rows)
            rows -= count
        return Anchor(offset, 0)

    def _rows_of(self, line: LogLine) -> list[Row]:
        shown = self._shown_form(line)
        plain = shown.text.plain
        if not self.wrap or len(plain) * 2 <= self.width:
            return [Row(shown, 0, len(plain))]
        cuts = [0, *wrap_points(plain, self.width), len(plain)]
        return [Row(shown, first, last) for first, last in pairwise(cuts)]

    def _shown_form(self, line: LogLine) -> ShownLine:
        key = (line.start, line.end)
        shown = self._shown.get(key)
        if shown is None:
            if self._shown_bytes > _CACHED_BYTES:
                self._forget_shown()
            self._shown_bytes += len(line.data) + 64
            text = safe_line(line.data)
            note = f" … {_bytes(line.cut)} more" if line.cut > 0 else ""
            shown = ShownLine(line.start, line.end, _with_note(text, note) if note else text, note)
            self._shown[key] = shown
        return shown


def selected_text(path: str, selection: Selection) -> str:
    """The lines of the selection as they are shown, the first `MOST_LINES` of them: also those that are out of view.

    In a selection of a log a line is named by its byte offset in place of a row number: that is in order, and stays.
    """
    lines: list[str] = []
    with LogFile(path) as log:
        start = selection.start.y if selection.start is not None else 0
        end = selection.end.y if selection.end is not None else log.size
        while start <= end and len(lines) < MOST_LINES:
            page = log.lines_from(start, _PAGE)
            if not page:
                break
            for line in page:
                span = selection.get_span(line.start)
                if span is None:
                    break
                plain = safe_line(line.data).plain
                lines.append(plain[span[0] : None if span[1] < 0 else span[1]])
            start = page[-1].end
    return "\n".join(lines[:MOST_LINES])


def wrap_points(text: str, width: int) -> list[int]:
    """Where the rows after the first begin when a text fills rows of `width` cells; a character is never halved."""
    if text.isascii():
        return list(range(width, len(text), width))
    points: list[int] = []
    used = 0
    for index, character in enumerate(text):
        size = get_character_cell_size(character)
        if used + size > width and used:
            points.append(index)
            used = 0
        used += size
    return points


def _with_note(text: SafeLine, note: str) -> SafeLine:
    """The line, with something behind it that is not in the file."""
    length = len(text.plain)
    return SafeLine(text.plain + note, (*text.spans, (length, length + len(note), GLYPH_STYLE)))


def _bytes(count: int) -> str:
    """`9.8 MB`, as sizes are told to people."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
