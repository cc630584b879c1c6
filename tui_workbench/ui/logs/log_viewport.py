"""The visible part of a log: an anchor in bytes, and the rows that fit below it.

The anchor is the byte offset of the first line and, if lines wrap, the number of a row in it. It stays on its text
while the log grows, and needs no line count. The cost is the same at every position of a file of any size. A pinned
viewport follows the end. A viewport is used by one thread at a time.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from rich.cells import get_character_cell_size
from textual.selection import Selection

from tui_workbench.core.progress import size_text
from tui_workbench.runs.logs.log_file import LogFile, LogLine
from tui_workbench.ui.terminal.safetext import GLYPH_STYLE, SafeLine, safe_line

_CACHED_BYTES = 1 << 20  # limit of the cache of drawn lines, in bytes of the log
MOST_LINES = 20_000  # limit of lines per copy; reading them takes about 20 ms
_PAGE = 1_000


class ShownLine(NamedTuple):
    """A line prepared for drawing. `text` ends with `note`, the size of the hidden rest of a long line."""

    start: int  # the byte offset of the line
    end: int
    text: SafeLine
    note: str = ""

    @property
    def plain(self) -> str:
        """The text without the note."""
        return self.text.plain[: len(self.text.plain) - len(self.note)]


class Row(NamedTuple):
    """A row of the screen: the characters `first` to `last` of a line."""

    line: ShownLine
    first: int
    last: int

    @property
    def starts_line(self) -> bool:
        return self.first == 0


class Anchor(NamedTuple):
    """The top row: the byte offset of its line, and the number of the row in the line.

    Anchors for the same width can be compared.
    """

    offset: int = 0
    row: int = 0


class Viewport:
    """The visible rows of a log. Call `refresh` after `LogFile.poll`."""

    def __init__(self, log: LogFile) -> None:
        self.log = log
        self.width = 80
        self.height = 0
        self.wrap = False
        self.top = Anchor()
        self.pinned = True  # True while the viewport follows the end
        self._generation = log.generation
        self._shown: dict[tuple[int, int], ShownLine] = {}
        self._shown_bytes = 0

    def _clear_cache(self) -> None:
        self._shown.clear()
        self._shown_bytes = 0

    def resize(self, width: int, height: int) -> None:
        """Set the size in cells. The top line stays, unless the viewport is pinned or reaches the end."""
        width = max(1, width)
        if self.wrap and width != self.width:
            self.top = Anchor(self.top.offset)
        self.width, self.height = width, max(0, height)
        self._limit_top()

    def set_wrap(self, wrap: bool) -> None:
        """Set whether long lines continue in the next row."""
        self.wrap = wrap
        self.top = Anchor(self.top.offset)
        self._limit_top()

    def _limit_top(self) -> None:
        self.top = self._end() if self.pinned else min(self.top, self._end())

    def refresh(self) -> None:
        """Show the end if the viewport is pinned or the log was replaced."""
        if self._generation != self.log.generation:
            self._generation = self.log.generation
            self._clear_cache()
            self.top = Anchor(self.log.begin)
            self.pinned = True
        if self.pinned:
            self._limit_top()

    def move(self, rows: int) -> None:
        """Scroll some rows down, or up if negative.

        Reaching the end pins the viewport; leaving the end unpins it.
        """
        if rows < 0:
            self.top = self._back(self.top, -rows)
            self.pinned = self.pinned and self.top >= self._end()
        elif rows > 0 and not self.pinned:
            self._go_down_to(self._forward(self.top, rows))

    def go_to_start(self) -> None:
        self.top = Anchor(self.log.begin)
        self.pinned = self._end() <= self.top

    def go_to_end(self) -> None:
        """Go to the end and follow it."""
        self.pinned = True
        self.refresh()

    def go_to(self, offset: int) -> None:
        """Put the line at this offset at the top. If the end does not allow this, go to the end and follow it."""
        self.pinned = False
        self._go_down_to(Anchor(offset))

    def return_to(self, anchor: Anchor) -> None:
        """Go to an anchor, or as near to it as the end allows, and unpin."""
        self.top = anchor
        self.pinned = False
        self._limit_top()

    def reveal(self, offset: int) -> None:
        """Bring the line at this offset into view, with some lines before it, and unpin."""
        if not any(row.line.start == offset and row.starts_line for row in self.rows()):
            self.show_below(offset, self.height // 3)
        self.pinned = False

    def show_below(self, offset: int, rows: int) -> None:
        """Put the line at this offset `rows` below the top, or as near to it as the end allows, and unpin."""
        self.top = min(self._back(Anchor(offset), rows), self._end())
        self.pinned = False

    def _go_down_to(self, anchor: Anchor) -> None:
        end = self._end()
        self.pinned = anchor >= end
        self.top = min(anchor, end)

    def rows(self) -> tuple[Row, ...]:
        rows: list[Row] = []
        for line in self.log.lines_from(self.top.offset, self.height):
            rows.extend(self._rows_of(line))
            if len(rows) - self.top.row >= self.height:
                break
        return tuple(rows[self.top.row : self.top.row + self.height])

    def _end(self) -> Anchor:
        """Return the anchor that puts the last line at the bottom."""
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
        return Anchor(self.log.begin)

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
        shown = self._shown_line(line)
        plain = shown.text.plain
        if not self.wrap or len(plain) * 2 <= self.width:
            return [Row(shown, 0, len(plain))]
        cuts = [0, *wrap_points(plain, self.width), len(plain)]
        return [Row(shown, first, last) for first, last in pairwise(cuts)]

    def _shown_line(self, line: LogLine) -> ShownLine:
        key = (line.start, line.end)
        shown = self._shown.get(key)
        if shown is None:
            if self._shown_bytes > _CACHED_BYTES:
                self._clear_cache()
            self._shown_bytes += len(line.data) + 64
            text = safe_line(line.data)
            note = f" … {size_text(line.cut)} more" if line.cut > 0 else ""
            if note:
                length = len(text.plain)
                text = SafeLine(text.plain + note, (*text.spans, (length, length + len(note), GLYPH_STYLE)))
            shown = ShownLine(line.start, line.end, text, note)
            self._shown[key] = shown
        return shown


def selected_text(path: str, selection: Selection) -> str:
    """Read the text of a selection, visible or not, up to `MOST_LINES` lines.

    The rows of the selection are byte offsets of lines.
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
    """Return the indexes at which a text wraps at `width` cells, without splitting wide characters."""
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
