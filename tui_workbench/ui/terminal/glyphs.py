"""A line filter that draws everything in ASCII, for terminals without Unicode.

Text keeps its width in cells. The glyphs of the workbench become similar ASCII characters, letters lose their accents,
and other characters become `?`.
"""

from __future__ import annotations

import unicodedata

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

_FORMS = {
    "*": "●•★◉⬤✶✱✳❋",
    "+": "✓✔☑⊕✚➕",
    "x": "✗✘✕✖×⊗☒",
    "!": "▲⚠❗‼",
    "o": "○◯◦⚬",
    ".": "◌☐·⋅▫∙",
    "/": "⊘∕⁄",
    ">": "▸▶►→›»≻⇒⟶➜➤❯▷≥",
    "<": "◂◀◄←‹«⇐⟵❮◁≤",
    "^": "↑▴△⇧⬆⌃",
    "v": "▾▼↓▽⇩⬇⌄",
    "#": "█▓▦▩■◼⬛▉▇┃┏┓┗┛┣┫┳┻╋",
    "%": "▊▆◍▧",
    "=": "▤▅▋≡▒═⊟▬━",
    "-": "─┄┅┈┉╌╍╴╶╸╺—–‒―−‐‑⎯▃▍⊖",
    "_": "▁▏",
    ",": "▂▎",
    ":": "▄▌░⋮∶",
    "|": "│┆┇┊┋╎╏╵╷╹╻║▐",
    "~": "…⋯≈∼±",
    "[": "⟦",
    "]": "⟧",
    "@": "◆⌂",
    "8": "∞",
    "'": "‘’‚′",
    '"': "“”„″",
    "$": "⏎␊␤↵↩",
    "&": "⚡",
    "u": "µμ",
    "d": "°",
    "E": "€",
    "D": "Δ∆◇",
    "0": "□",
    "S": "Σ",
}

_BRAILLE_ROWS = (0x01 | 0x08, 0x02 | 0x10, 0x04 | 0x20, 0x40 | 0x80)
_DOTS = {0b0000: " ", 0b0001: "'", 0b0010: "-", 0b0100: "-", 0b1000: ".", 0b0011: '"', 0b0110: "=", 0b1100: ","}
"""ASCII forms of braille cells. A key has a bit for each row with dots; the lowest bit is the top row."""


class _Table(dict[int, str]):
    """A table for `str.translate`, filled on demand."""

    def __missing__(self, code: int) -> str:
        form = self[code] = _form(chr(code))
        return form


def _form(character: str) -> str:
    if character.isascii():
        return character
    width = cell_len(character)
    code = ord(character)
    if 0x2800 <= code <= 0x28FF:
        # A braille pattern has a bit for each of its eight dots.
        rows = sum(1 << row for row, dots in enumerate(_BRAILLE_ROWS) if (code - 0x2800) & dots)
        return _DOTS.get(rows, "|" if rows.bit_count() > 2 else ":")
    if 0x2500 <= code <= 0x257F:
        return "+"
    plain = "".join(part for part in unicodedata.normalize("NFKD", character) if part.isascii() and part.isprintable())
    return plain if plain and len(plain) == width else "?" * width


_TABLE = _Table({ord(character): form for form, characters in _FORMS.items() for character in characters})


class AsciiOnly(LineFilter):
    """A filter that draws every line in ASCII."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(_drawn(text, style), style, control) for text, style, control in segments]


def _drawn(text: str, style: Style | None) -> str:
    if text.isascii():
        return text
    # ASCII has no partial blocks for the ends of a scroll bar.
    is_bar = style is not None and "@mouse.down" in style.meta
    return " " * cell_len(text) if is_bar else text.translate(_TABLE)
