"""Private-use characters (stand-ins) that replace unsafe and invisible characters while a text is edited.

`to_source` restores exactly the text that `to_document` was given.
"""

from __future__ import annotations

import re

from rich.cells import cell_len

from tui_workbench.ui.terminal.safetext import glyph, is_safe

_FIRST_STAND_IN = 0xFB000
"""The start of a private-use range that no icon font uses (Nerd Fonts end at U+F1AF0)."""

_KEPT = {"\n", "\t"}
_ANCHOR = "a"
"""The letter before each checked character. Combining marks are safe after a letter."""

_stand_ins: dict[str, str] = {}
_characters: dict[str, str] = {}
_STAND_IN = re.compile("[\U000fb000-\U000fffff]")


def has_stand_ins(source: str) -> bool:
    """Return True if a source text already contains characters of the private-use range."""
    return _STAND_IN.search(source) is not None


def to_document(source: str) -> str:
    """Replace each character that is unsafe to draw with a stand-in, except tabs and line feeds."""
    unsafe = {character for character in set(source) - _KEPT if not is_safe(_ANCHOR + character)}
    return source.translate({ord(character): _stand_in(character) for character in unsafe}) if unsafe else source


def to_source(text: str) -> str:
    """Restore the characters that `to_document` replaced."""
    return text if text.isascii() else _STAND_IN.sub(lambda match: _characters.get(match[0], match[0]), text)


def to_screen(text: str) -> str:
    """Replace each stand-in with a glyph of one cell, for drawing."""
    return _STAND_IN.sub(lambda match: _glyph_of(match[0]), text)


def name_of(character: str) -> str:
    """Return the code point of a stand-in's original (`U+202E`); "" for any other character."""
    hidden = _characters.get(character)
    return f"U+{ord(hidden):04X}" if hidden else ""


def _stand_in(character: str) -> str:
    if character not in _stand_ins:
        stand_in = chr(_FIRST_STAND_IN + len(_stand_ins))
        _stand_ins[character] = stand_in
        _characters[stand_in] = character
    return _stand_ins[character]


def _glyph_of(stand_in: str) -> str:
    shown = glyph(_characters.get(stand_in, stand_in))
    if not shown:
        return "·"
    return shown if cell_len(shown) == 1 else "�"
