"""Make untrusted text safe to print. All untrusted text on the screens passes through this module.

The result has printable characters only. Control characters, invisible or direction-changing characters and undecodable
bytes become visible glyphs. `safe_text` returns plain text; `safe_line` returns a line of a log, with its SGR colors as
styles.

Both return *text*, not markup: wrap it in `rich.text.Text` or `textual.content.Content`, and never parse it as markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any, NamedTuple

from rich.cells import cell_len, get_character_cell_size
from rich.color import Color
from rich.style import Style

from tui_workbench.core.plaintext import GLYPHS, INVISIBLE, UNSAFE
from tui_workbench.core.plaintext import glyph as glyph

TAB_SIZE = 8

MAX_COLUMN = 4096
"""The last column for cursor movements; otherwise `CSI 9999 C` would make pages of spaces."""

# Sequences that are interpreted in a line of a log. Any other ESC is matched alone, because the next ESC may begin a
# sequence that is interpreted.
_SPECIAL = (
    "\x1b\\[(?P<sgr>[0-9;:]{0,128})m|\x1b\\[(?P<count>[0-9]{0,4})(?P<move>[CDGK])|(?P<control>[\r\b\t])|\x1b"
    f"|[\\x00-\\x07\\n-\\f\\x0e-\\x1a\\x1c-\\x1f{INVISIBLE}]+"
)

GLYPH_STYLE = Style(dim=True)
"""The style of glyphs for invisible characters, to distinguish them from text with the same characters."""


def is_safe(text: str) -> bool:
    """Return True if `safe_text` would not change the text."""
    if text.isascii():
        return text.isprintable()
    return re.search(UNSAFE, text) is None and get_character_cell_size(text[0]) > 0


def safe_text(text: str, *, multiline: bool = False) -> str:
    r"""Replace unsafe characters with visible glyphs, and tabs with spaces. Idempotent.

    With `multiline`, newlines stay (`\r\n` counts as one). Otherwise they become `␊`, so that a file name with a
    newline does not look like two.
    """
    if is_safe(text):
        return text
    if multiline:
        return "\n".join(safe_text(line) for line in text.replace("\r\n", "\n").split("\n"))
    lines = (re.sub(UNSAFE, lambda match: match[0].translate(GLYPHS), piece) for piece in text.split("\t"))
    safe = _join_at_tab_stops(lines)
    # A combining mark at the start gets a circle, because it would change the cell before the text.
    return "◌" + safe if safe and get_character_cell_size(safe[0]) == 0 else safe


def truncate_middle(text: str, width: int) -> str:
    """Make the text safe and shorten it to at most `width` cells, with `…` for the omitted middle.

    Use this for paths, names and IDs, of which both ends matter.
    """
    text = safe_text(text)
    if width <= 0:
        return ""
    if cell_len(text) <= width:
        return text
    pieces = clusters(text)
    room = width - 1
    tail = _fitting(pieces[::-1], room // 2)
    head = _fitting(pieces, room - sum(map(cell_len, tail)))
    return "".join([*head, "…", *tail[::-1]])


def truncate_end(text: str, width: int) -> str:
    """Make the text safe and shorten it to at most `width` cells, with `…` for the omitted end."""
    text = safe_text(text)
    return text if cell_len(text) <= width else "".join(_fitting(clusters(text), width - 1)) + "…"


class SafeLine(NamedTuple):
    """A safe line: its characters, and spans (start, end, style) in order, not overlapping."""

    plain: str
    spans: tuple[tuple[int, int, Style], ...] = ()

    @property
    def cells(self) -> int:
        return cell_len(self.plain)


def safe_line(data: bytes) -> SafeLine:
    r"""Return a line of a log, without its newline, as a terminal would finally show it.

    SGR colors and attributes are kept, except blinking and concealing. `\r`, `\b`, tabs and the sequences of progress
    bars (cursor left, right and to a column; erase in line) are interpreted within the line. Everything else is shown:
    any other `ESC` as `␛`, a byte that is not UTF-8 as `<FF>`.
    """
    text = data.decode("utf-8", "surrogateescape")
    if is_safe(text):
        return SafeLine(text)
    row, pen, position = _Row(), Pen(), 0
    for match in re.finditer(_SPECIAL, text):
        row.write(text[position : match.start()], _style(pen))
        position = match.end()
        if match["sgr"] is not None:
            pen = _apply(pen, match["sgr"])
        elif match["move"]:
            row.move(match["move"], int(match["count"] or "0"))
        elif match["control"]:
            row.control(match["control"])
        else:
            row.write(match[0].translate(GLYPHS), GLYPH_STYLE)
    row.write(text[position:], _style(pen))
    return row.line()


class _Row:
    """A row of terminal cells. A wide character is followed by an empty cell."""

    def __init__(self) -> None:
        self.cells: list[str] = []
        self.styles: list[Style | None] = []
        self.column = 0

    def write(self, text: str, style: Style | None) -> None:
        """Write safe text over the cells at the cursor, and move the cursor to the end of the text."""
        if not text:
            return
        cells: list[str] = []
        if text.isascii():
            cells.extend(text)
        else:
            for character in text:
                size = get_character_cell_size(character)
                if size == 0:
                    self._combine(cells, character)
                else:
                    cells.append(character)
                    cells.extend([""] * (size - 1))
        self._put(cells, style)

    def _combine(self, cells: list[str], mark: str) -> None:
        for index in range(len(cells) - 1, -1, -1):
            if cells[index]:
                cells[index] += mark
                return
        for index in range(min(self.column, len(self.cells)) - 1, -1, -1):
            if self.cells[index]:
                self.cells[index] += mark
                return
        cells.append("◌" + mark)

    def _put(self, cells: list[str], style: Style | None) -> None:
        start, end = self.column, self.column + len(cells)
        if start > len(self.cells):
            missing = start - len(self.cells)
            self.cells.extend(" " * missing)
            self.styles.extend([None] * missing)
        # The other half of an overwritten wide character becomes a space.
        if 0 < start < len(self.cells) and self.cells[start] == "":
            self.cells[start - 1] = " "
        if end < len(self.cells) and self.cells[end] == "":
            self.cells[end] = " "
        self.cells[start:end] = cells
        self.styles[start:end] = [style] * len(cells)
        self.column = end

    def control(self, character: str) -> None:
        """Move the cursor for a carriage return, a backspace or a tab."""
        if character == "\r":
            self.column = 0
        elif character == "\b":
            self.column = max(0, self.column - 1)
        else:
            self.column = (self.column // TAB_SIZE + 1) * TAB_SIZE

    def move(self, kind: str, count: int) -> None:
        """Execute `CSI n C`, `CSI n D`, `CSI n G` or `CSI n K`."""
        if kind == "K":
            self._erase(count)
        elif kind == "C":
            self.column = max(self.column, min(self.column + max(1, count), MAX_COLUMN))
        elif kind == "D":
            self.column = max(0, self.column - max(1, count))
        else:
            self.column = min(max(1, count), MAX_COLUMN) - 1

    def _erase(self, part: int) -> None:
        if part == 2:
            self.cells.clear()
            self.styles.clear()
        elif part == 0:
            if self.column < len(self.cells) and self.cells[self.column] == "" and self.column > 0:
                self.cells[self.column - 1] = " "
            del self.cells[self.column :]
            del self.styles[self.column :]
        elif part == 1:
            end = min(self.column + 1, len(self.cells))
            if end < len(self.cells) and self.cells[end] == "":
                self.cells[end] = " "
            self.cells[:end] = [" "] * end
            self.styles[:end] = [None] * end

    def line(self) -> SafeLine:
        spans: list[tuple[int, int, Style]] = []
        start = 0
        for style, cells in groupby(zip(self.cells, self.styles, strict=True), key=itemgetter(1)):
            end = start + sum(len(cell) for cell, _ in cells)
            if style is not None and start < end:
                spans.append((start, end, style))
            start = end
        return SafeLine("".join(self.cells), tuple(spans))


_BEGUN = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike", 21: "underline", 53: "overline"}
_ENDED = {22: {"bold", "dim"}, 23: {"italic"}, 24: {"underline"}, 27: {"reverse"}, 29: {"strike"}, 55: {"overline"}}


class Pen(NamedTuple):
    """The attributes of the next character, as set by SGR sequences."""

    attributes: frozenset[str] = frozenset()
    color: Color | None = None
    background: Color | None = None


@lru_cache(4096)
def _style(pen: Pen) -> Style | None:
    """Return the style of a pen; None for the default pen. Equal pens give the same object."""
    attributes: Mapping[str, Any] = dict.fromkeys(pen.attributes, True)
    return None if pen == Pen() else Style(color=pen.color, bgcolor=pen.background, **attributes)


@lru_cache(4096)
def _apply(pen: Pen, parameters: str) -> Pen:
    """Return the pen after an SGR sequence with these parameters. Unknown codes are ignored."""
    # The colon form is one parameter: `38:2::R:G:B`, with an empty color space.
    codes = iter([_codes(part) for part in parameters.split(";")])
    for code in codes:
        head = code[0]
        if head in (38, 48, 58):
            color = _extended_color(code[1:], codes)
            if color is not None and head != 58:
                pen = pen._replace(color=color) if head == 38 else pen._replace(background=color)
        elif head == 4 and code[1:] == [0]:
            pen = pen._replace(attributes=pen.attributes - {"underline"})
        else:
            pen = _apply_code(pen, head)
    return pen


def _codes(part: str) -> list[int]:
    # No code has more than four digits, and int() is slow for thousands of them.
    return [int(number) if 0 < len(number) < 5 else 0 if not number else -1 for number in part.split(":")]


def _apply_code(pen: Pen, code: int) -> Pen:
    if code == 0:
        return Pen()
    if code in _BEGUN:
        return pen._replace(attributes=pen.attributes | {_BEGUN[code]})
    if code in _ENDED:
        return pen._replace(attributes=pen.attributes.difference(_ENDED[code]))
    if code in (39, 49):
        return pen._replace(color=None) if code == 39 else pen._replace(background=None)
    for first, base in ((30, 0), (90, 8)):
        if first <= code < first + 8:
            return pen._replace(color=Color.from_ansi(code - first + base))
        if first + 10 <= code < first + 18:
            return pen._replace(background=Color.from_ansi(code - first - 10 + base))
    return pen


def _extended_color(inside: list[int], following: Iterator[list[int]]) -> Color | None:
    """Return the color of `38;5;N`, `38;2;R;G;B` and their colon forms, or None if malformed."""
    if inside:
        kind, rest = inside[0], inside[1:]
        if kind == 2:
            rest = rest[-3:]
    else:
        kind = next(following, [-1])[0]
        rest = [next(following, [-1])[0] for _ in range({5: 1, 2: 3}.get(kind, 0))]
    if kind == 5 and len(rest) == 1 and 0 <= rest[0] <= 255:
        return Color.from_ansi(rest[0])
    if kind == 2 and len(rest) == 3 and all(0 <= value <= 255 for value in rest):
        return Color.from_rgb(*rest)
    return None


def _join_at_tab_stops(pieces: Iterable[str]) -> str:
    joined: list[str] = []
    column = 0
    for piece in pieces:
        if joined:
            spaces = TAB_SIZE - column % TAB_SIZE
            joined.append(" " * spaces)
            column += spaces
        joined.append(piece)
        column += cell_len(piece)
    return "".join(joined)


def is_control(character: str) -> bool:
    """Return True for a C0 or C1 control character."""
    return character < " " or "\x7f" <= character <= "\x9f"


def clusters(text: str) -> list[str]:
    """Split the text into characters, each with its combining characters.

    Return the whole text in one piece if the widths would not add up.
    """
    pieces: list[str] = []
    for character in text:
        joins = pieces and (cell_len(character) == 0 or pieces[-1][-1] == "\u200d")
        if joins and not is_control(character):
            pieces[-1] += character
        else:
            pieces.append(character)
    return pieces if sum(map(cell_len, pieces)) == cell_len(text) else [text]


def _fitting(pieces: Sequence[str], room: int) -> list[str]:
    fits = accumulate(map(cell_len, pieces))
    return [piece for piece, used in zip(pieces, fits, strict=True) if used <= room]
