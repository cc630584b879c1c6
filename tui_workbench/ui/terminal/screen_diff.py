"""What the terminal shows, cell by cell, and the shortest way we know to make it show something else.

The invariants: what `take` has given, read by a terminal, makes it show what was drawn; a cell of whose content nobody
can be sure is `UNKNOWN`, which equals nothing that is drawn; a blank cell is its ground alone, because nobody sees the
colour of a letter that is not there. Control characters in what is drawn never come out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import filterfalse, groupby, repeat
from operator import itemgetter, ne

from rich.cells import cell_len

from tui_workbench.ui.terminal.safetext import clusters, is_control

REST = ""
"""The text of all cells but the first of a character that is wider than one."""

GAP = 6
"""Cells that are written again rather than skipped: to move the cursor costs as much."""

LONGEST_WORD = 16
"""Cells of a word that is written whole when a part of it changed, so that who reads along reads words."""

BLANKS = 12
"""Blanks from which on erasing them is shorter than writing them."""

_UNSURE = re.compile(r"[\U0001f000-\U0001ffff\ufe00-\ufe0f\u200d\U000e0000-\U0010ffff]")

_PARAMETER = re.compile(r"[34]8;5;\d+|[34]8;2;\d+;\d+;\d+|\d+")

_ENDS = {"1": "22", "2": "22", "3": "23", "4": "24", "7": "27", "9": "29"}
"""What ends an attribute on every terminal; the others are ended by a reset."""

_SEEN_ON_BLANKS = frozenset({"4", "5", "6", "7", "9", "21", "51", "52", "53"})
"""Attributes that are seen where no letter is: lines, boxes, exchanged colours."""


class Look:
    """How a cell looks: attributes, foreground and background as SGR parameters, "" being the terminal's own colour."""

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
        self.ground = self.background if is_plain else None
        """What a blank shows, when that is its background alone."""

    @property
    def of_blanks(self) -> Look:
        """The one look that all looks with this ground share for their blanks."""
        return self if self.ground is None else look_of(self.ground)


@lru_cache(10_000)
def look_of(codes: str, link: str = "") -> Look:
    """The one look for these SGR parameters: looks are compared by identity."""
    return Look(codes, link)


@lru_cache(10_000)
def transition(old: Look | None, new: Look) -> str:
    """The control sequence after which letters look like `new`; `old` is None when nobody knows how they look now."""
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


Cell = tuple[str, Look]
"""A character with what combines with it, and its look."""

UNKNOWN: Cell = ("\0", Look(""))


class ScreenBuffer:
    """A frame to draw into with `put`; what the terminal does not show of it yet comes from `take`, as text for it.

    `erases` says that the terminal erases to the background that is set.
    """

    def __init__(self, *, erases: bool = True) -> None:
        self._erases = erases
        self._out: list[str] = []
        self.resize(0, 0)

    # --- Drawing

    def resize(self, width: int, height: int) -> None:
        """Begin anew at this size, with nothing drawn and nothing known of the terminal."""
        self.width, self.height = width, height
        self.rows = [[UNKNOWN] * width for _ in range(height)]
        """What is drawn."""
        self.forget()

    def forget(self) -> None:
        """The terminal may show anything now: all that is drawn is written again by the next `take`."""
        self._shown = [[UNKNOWN] * self.width for _ in range(self.height)]
        self._changed = set(range(self.height))
        self._pen: Look | None = None
        self._place: tuple[int, int] | None = None

    def put(self, x: int, y: int, pieces: Iterable[tuple[str, Look]]) -> None:
        """Draw texts, each with its look, one behind the other from this cell on; what is outside is left out."""
        if not 0 <= y < self.height:
            return
        new: list[Cell] = []
        for text, look in pieces:
            new += zip(_cells(text), repeat(look if text.strip(" ") else look.of_blanks))
        old = self.rows[y]
        end = min(x + len(new), self.width)
        row = [*old[:x], *new[: end - x], *old[end:]]
        # Of a wide character that loses a part nothing is left.
        if old[x : x + 1] and old[x][0] == REST:
            _blank_before(row, x)
        if x + len(new) > end and new[end - x][0] == REST:
            _blank_before(row, end)
        while end < self.width and row[end][0] == REST:
            row[end] = (" ", row[end][1].of_blanks)
            end += 1
        self.rows[y] = row
        self._changed.add(y)

    # --- Writing

    def take(self, cursor: tuple[int, int]) -> str:
        """What makes the terminal show all that was drawn, with the cursor there; "" when it does already."""
        for y in sorted(self._changed):
            row = self.rows[y]
            for start, end in _changes(row, self._shown[y]):
                x = start
                for look, cells in groupby(row[start:end], key=itemgetter(1)):
                    texts = [text for text, _ in cells]
                    # What was never drawn is nobody's: it stays as it is.
                    if look is not UNKNOWN[1]:
                        self._write_run(x, y, texts, look)
                    x += len(texts)
            self._shown[y] = row
        self._changed.clear()
        if self._pen is not None and self._pen.link:
            self._set_pen(look_of(""))
        self._move(*cursor)
        text = "".join(self._out)
        self._out.clear()
        return text

    def _write_run(self, x: int, y: int, texts: list[str], look: Look) -> None:
        parts = [texts]
        if look.ground is not None and self._erases and " " * BLANKS in "".join(texts):
            parts = [list(part) for _, part in groupby(texts, key=" ".__eq__)]
        for part in parts:
            self._move(x, y)
            is_blank = look.ground is not None and set(part) == {" "}
            # The colour of letters does not matter for blanks.
            if not (is_blank and self._pen is not None and self._pen.ground == look.ground):
                self._set_pen(look)
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
            for place, text in enumerate(texts, x):
                if is_unsure(text):
                    # A terminal that takes it for wider or narrower spoils no other cell.
                    self._out.append(" " * cell_len(text))
                    self._place = None
                    self._move(place, y)
                    self._out.append(text)
                    self._place = None
                    self._move(place + cell_len(text), y)
                else:
                    self._out.append(text)
        # In the last column terminals differ in where the cursor is.
        self._place = (end, y) if end < self.width else None

    def _set_pen(self, look: Look) -> None:
        if look is not self._pen:
            self._out.append(transition(self._pen, look))
            self._pen = look

    def _move(self, x: int, y: int) -> None:
        if self._place == (x, y):
            return
        if self._place is not None and self._place[1] == y and x > self._place[0]:
            steps = x - self._place[0]
            self._out.append("\x1b[C" if steps == 1 else f"\x1b[{steps}C")
        else:
            self._out.append(f"\x1b[{y + 1};{x + 1}H" if x else f"\x1b[{y + 1}H")
        self._place = (x, y)


def _changes(row: Sequence[Cell], shown: Sequence[Cell]) -> Iterator[tuple[int, int]]:
    """The stretches of a row that must be written: whole words, and gaps between them that are no longer than GAP."""
    spans: list[list[int]] = []
    for x, differs in enumerate(map(ne, row, shown)):
        if differs and spans and x - spans[-1][1] <= GAP:
            spans[-1][1] = x + 1
        elif differs:
            spans.append([x, x + 1])
    done = 0
    for span in spans:
        start, end = _whole_words(row, *span)
        if max(start, done) < end:
            yield max(start, done), end
            done = end


def _whole_words(row: Sequence[Cell], start: int, end: int) -> tuple[int, int]:
    """The stretch, grown to the ends of the words that it cuts, as long as they are words."""
    first, last = start, end
    while first > 0 and row[first][0] != " " and row[first - 1][0] != " ":
        first -= 1
    while last < len(row) and row[last - 1][0] != " " and row[last][0] != " ":
        last += 1
    start = first if start - first < LONGEST_WORD else start
    end = last if last - end < LONGEST_WORD else end
    # A wide character is written whole.
    while start > 0 and row[start][0] == REST:
        start -= 1
    while end < len(row) and row[end][0] == REST:
        end += 1
    return start, end


def _blank_before(row: list[Cell], x: int) -> None:
    """Blank the wide character before a cut that goes through it."""
    start = x - 1
    while start > 0 and row[start][0] == REST:
        start -= 1
    row[start:x] = [(" ", look.of_blanks) for _, look in row[start:x]]


@lru_cache(4096)
def _is_narrow(character: str) -> bool:
    """Whether it is a cell by itself."""
    return not is_control(character) and cell_len(character) == 1


def _cells(text: str) -> Sequence[str]:
    """The text with exactly one string for each cell."""
    if (text.isascii() and text.isprintable()) or all(map(_is_narrow, set(text))):
        return text
    cells: list[str] = []
    for cluster in clusters(text):
        width = cell_len(cluster)
        shown = "".join(filterfalse(is_control, cluster))
        cells += [shown, *[REST] * (width - 1)] if shown and width else " " * width
    return cells


def is_unsure(text: str) -> bool:
    """Whether terminals differ in how wide this is: pictures, what joins them, and what changes them."""
    return not text.isascii() and _UNSURE.search(text) is not None
