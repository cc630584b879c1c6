"""A buffer of screen cells, and a short sequence that changes the terminal to the content of the buffer.

The style `UNKNOWN` marks a cell in which the terminal may show anything. No drawn cell has this style. Blanks are
compared by their background alone. Control characters are never written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import compress, count, filterfalse, groupby
from operator import is_not, ne, or_
from typing import NamedTuple

from rich.cells import cell_len

from tui_workbench.ui.terminal.safetext import clusters, is_control

REST = ""
"""The text of the second cell of a wide character."""

GAP = 6
"""Gaps of up to this number of cells are written again, because moving the cursor takes as many bytes."""

MAX_WORD = 16
"""Changed words of up to this number of cells are written whole, for screen readers and recordings."""

BLANKS = 12
"""The number of blanks from which erasing is shorter than writing."""

_UNSURE = re.compile(r"[\U0001f000-\U0001ffff\ufe00-\ufe0f\u200d\U000e0000-\U0010ffff]")

_PARAMETER = re.compile(r"[34]8;5;\d+|[34]8;2;\d+;\d+;\d+|\d+")

_ENDS = {"1": "22", "2": "22", "3": "23", "4": "24", "7": "27", "9": "29"}
"""The codes that end an attribute on every terminal; other attributes need a reset."""

_SEEN_ON_BLANKS = frozenset({"4", "5", "6", "7", "9", "21", "51", "52", "53"})
"""Attributes that are visible on blanks: lines, boxes, reversed colors."""


class CellStyle:
    """The attributes, foreground and background of a cell as SGR parameters; "" is the default color."""

    def __init__(self, codes: str, link: str = "") -> None:
        self.codes, self.link = codes, link
        self.foreground = self.background = ""
        attributes = set()
        for parameter in _PARAMETER.findall(codes):
            code = int(parameter.partition(";")[0])
            if 30 <= code <= 38 or 90 <= code <= 97:
                self.foreground = parameter
            elif 40 <= code <= 48 or 100 <= code <= 107:
                self.background = parameter
            elif code not in (39, 49):
                attributes.add(parameter)
        self.attributes = frozenset(attributes)
        is_plain = not link and not self.attributes & _SEEN_ON_BLANKS
        self.blank_background = self.background if is_plain else None
        """The background if a blank of this style shows nothing else, or None."""

    @property
    def of_blanks(self) -> CellStyle:
        """The style of blanks in this style.

        All styles whose blanks show only the same background share one object.
        """
        return self if self.blank_background is None else cell_style(self.blank_background)


@lru_cache(10_000)
def cell_style(codes: str, link: str = "") -> CellStyle:
    """Return a style. Equal arguments give the same object, because styles are compared by identity."""
    return CellStyle(codes, link)


@lru_cache(10_000)
def transition(old: CellStyle | None, new: CellStyle) -> str:
    """Return the sequence that changes the style to `new`; `old` is None for an unknown style."""
    whole = f"\x1b[0;{new.codes}m" if new.codes else "\x1b[m"
    link = f"\x1b]8;;{new.link}\x1b\\" if new.link != (old.link if old is not None else "") else ""
    if old is None:
        return link + whole
    ended = old.attributes - new.attributes
    if not ended <= _ENDS.keys():
        return link + whole
    ends = {_ENDS[code] for code in ended}
    begun = {code for code in new.attributes if code not in old.attributes or _ENDS.get(code) in ends}
    parts = [*sorted(ends), *sorted(begun)]
    if new.foreground != old.foreground:
        parts.append(new.foreground or "39")
    if new.background != old.background:
        parts.append(new.background or "49")
    change = f"\x1b[{';'.join(parts)}m" if parts else ""
    return link + min(change, whole, key=len)


UNKNOWN = CellStyle("")


class Row(NamedTuple):
    """The texts and styles of the cells of a row. A text is a character with its combining characters, or REST."""

    texts: list[str]
    styles: list[CellStyle]


def _unknown_rows(width: int, height: int) -> list[Row]:
    return [Row([" "] * width, [UNKNOWN] * width) for _ in range(height)]


class ScreenBuffer:
    """A buffer to draw into with `put`; `take` returns the text that updates the terminal.

    `erases` is True for a terminal that erases with the current background color.
    """

    def __init__(self, *, erases: bool = True) -> None:
        self._erases = erases
        self._out: list[str] = []
        self.resize(0, 0)

    # --- Drawing

    def resize(self, width: int, height: int) -> None:
        """Clear the buffer and set its size."""
        self.width, self.height = width, height
        self.rows = _unknown_rows(width, height)
        self.forget()

    def forget(self) -> None:
        """Make the next `take` write everything, because the terminal may show anything."""
        self._shown = _unknown_rows(self.width, self.height)
        self._changed = set(range(self.height))
        self._pen: CellStyle | None = None
        self._cursor: tuple[int, int] | None = None

    def put(self, x: int, y: int, pieces: Iterable[tuple[str, CellStyle]]) -> None:
        """Draw consecutive texts with their styles from this cell on. Texts are cut off at the edge of the screen."""
        if not 0 <= y < self.height or x >= self.width:
            return  # the update is for the size before the last change
        texts: list[str] = []
        styles: list[CellStyle] = []
        for text, style in pieces:
            cells = _cells(text)
            texts += cells
            styles += [style if text.strip(" ") else style.of_blanks] * len(cells)
        old = self.rows[y]
        end = min(x + len(texts), self.width)
        row = Row(
            [*old.texts[:x], *texts[: end - x], *old.texts[end:]],
            [*old.styles[:x], *styles[: end - x], *old.styles[end:]],
        )
        # A wide character that loses a part becomes blank.
        if old.texts[x : x + 1] == [REST]:
            _blank(row, _wide_start(row, x), x)
        if x + len(texts) > end and texts[end - x] == REST:
            _blank(row, _wide_start(row, end), end)
        _blank(row, end, _wide_end(row, end))
        self.rows[y] = row
        self._changed.add(y)

    # --- Writing

    def take(self, cursor: tuple[int, int]) -> str:
        """Return the text that updates the terminal and places the cursor; "" if nothing has changed."""
        for y in sorted(self._changed):
            row = self.rows[y]
            for start, end in _changes(row, self._shown[y]):
                x = start
                for style, run in groupby(row.styles[start:end]):
                    stop = x + len(list(run))
                    if style is not UNKNOWN:  # cells that were never drawn are skipped
                        self._write_run(x, y, row.texts[x:stop], style)
                    x = stop
            self._shown[y] = row
        self._changed.clear()
        if self._pen is not None and self._pen.link:
            self._set_pen(cell_style(""))
        self._move(*cursor)
        text = "".join(self._out)
        self._out.clear()
        return text

    def _write_run(self, x: int, y: int, texts: list[str], style: CellStyle) -> None:
        parts = [texts]
        if style.blank_background is not None and self._erases and " " * BLANKS in "".join(texts):
            parts = [list(part) for _, part in groupby(texts, key=" ".__eq__)]
        for part in parts:
            self._move(x, y)
            is_blank = style.blank_background is not None and set(part) == {" "}
            # The foreground of blanks does not matter.
            if not (is_blank and self._pen is not None and self._pen.blank_background == style.blank_background):
                self._set_pen(style)
            if is_blank and self._erases and len(part) >= BLANKS:
                self._out.append("\x1b[K" if x + len(part) >= self.width else f"\x1b[{len(part)}X")
            else:
                self._write_cells(x, y, part)
            x += len(part)

    def _write_cells(self, x: int, y: int, texts: Sequence[str]) -> None:
        end = x + len(texts)
        if not is_unsure("".join(texts)):
            self._out += texts
        else:
            for column, text in enumerate(texts, x):
                if is_unsure(text):
                    # Cursor moves before and after the text keep its width from shifting other cells.
                    self._out.append(" " * cell_len(text))
                    self._cursor = None
                    self._move(column, y)
                    self._out.append(text)
                    self._cursor = None
                    self._move(column + cell_len(text), y)
                else:
                    self._out.append(text)
        # After a write to the last column, the position of the cursor depends on the terminal.
        self._cursor = (end, y) if end < self.width else None

    def _set_pen(self, style: CellStyle) -> None:
        if style is not self._pen:
            self._out.append(transition(self._pen, style))
            self._pen = style

    def _move(self, x: int, y: int) -> None:
        if self._cursor == (x, y):
            return
        if self._cursor is not None and self._cursor[1] == y and x > self._cursor[0]:
            steps = x - self._cursor[0]
            self._out.append("\x1b[C" if steps == 1 else f"\x1b[{steps}C")
        else:
            self._out.append(f"\x1b[{y + 1};{x + 1}H" if x else f"\x1b[{y + 1}H")
        self._cursor = (x, y)


def _changes(row: Row, shown: Row) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a row that must be written: whole words, joined over gaps of up to GAP cells."""
    spans: list[list[int]] = []
    differing = map(or_, map(ne, row.texts, shown.texts), map(is_not, row.styles, shown.styles))
    for x in compress(count(), differing):
        if spans and x - spans[-1][1] <= GAP:
            spans[-1][1] = x + 1
        else:
            spans.append([x, x + 1])
    done = 0
    for span in spans:
        start, end = _whole_words(row, *span)
        if max(start, done) < end:
            yield max(start, done), end
            done = end


def _whole_words(row: Row, start: int, end: int) -> tuple[int, int]:
    """Extend each end of a range to the end of its word, if this adds fewer than MAX_WORD cells.

    Also extend the range to whole wide characters.
    """
    texts, first, last = row.texts, start, end
    while first > 0 and texts[first] != " " and texts[first - 1] != " ":
        first -= 1
    while last < len(texts) and texts[last - 1] != " " and texts[last] != " ":
        last += 1
    start = first if start - first < MAX_WORD else start
    end = last if last - end < MAX_WORD else end
    return _wide_start(row, start + 1), _wide_end(row, end)


def _wide_start(row: Row, end: int) -> int:
    """Return the first cell of the character whose cells end at `end`."""
    start = end - 1
    while start > 0 and row.texts[start] == REST:
        start -= 1
    return start


def _wide_end(row: Row, start: int) -> int:
    """Return the end of the cells from `start` on that continue a wide character."""
    end = start
    while end < len(row.texts) and row.texts[end] == REST:
        end += 1
    return end


def _blank(row: Row, start: int, end: int) -> None:
    for x in range(start, end):
        row.texts[x], row.styles[x] = " ", row.styles[x].of_blanks


@lru_cache(4096)
def _is_narrow(character: str) -> bool:
    return not is_control(character) and cell_len(character) == 1


def _cells(text: str) -> Sequence[str]:
    """Return a string for each cell of the text."""
    if (text.isascii() and text.isprintable()) or all(map(_is_narrow, set(text))):
        return text
    cells: list[str] = []
    for cluster in clusters(text):
        width = cell_len(cluster)
        shown = "".join(filterfalse(is_control, cluster))
        cells += [shown, *[REST] * (width - 1)] if shown and width else " " * width
    return cells


def is_unsure(text: str) -> bool:
    """Return True if terminals differ in the width of the text, as for emoji."""
    return not text.isascii() and _UNSURE.search(text) is not None
