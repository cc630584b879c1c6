"""Stand-ins for characters that a terminal might obey or not show, for texts that are edited.

The invariant: `to_source` gives back exactly the characters that `to_document` was given.
"""

from __future__ import annotations

import re

from rich.cells import cell_len

from tui_workbench.ui.terminal.safetext import glyph, is_safe

_FIRST_STAND_IN = 0xFB000
"""A stretch of a private-use plane that no icon font uses (Nerd Fonts end at U+F1AF0): such text passes unchanged."""

_KEPT = {"\n", "\t"}
_ANCHOR = "a"
"""A combining mark is safe after a letter, and an editor shows it so."""

_stand_ins: dict[str, str] = {}
_characters: dict[str, str] = {}
_STAND_IN = re.compile("[\U000fb000-\U000fffff]")


def has_stand_ins(source: str) -> bool:
    """True when text from outside holds characters of the private stretch: it could not be told from stand-ins."""
    return _STAND_IN.search(source) is not None


def to_document(source: str) -> str:
    """Text with a stand-in for each character that is not safe to draw; tabs and line feeds stay."""
    unsafe = {character for character in set(source) - _KEPT if not is_safe(_ANCHOR + character)}
    return source.translate({ord(character): _stand_in(character) for character in unsafe}) if unsafe else source


def to_source(text: str) -> str:
    """What `to_document` was given."""
    return text if text.isascii() else _STAND_IN.sub(lambda match: _characters.get(match[0], match[0]), text)


def to_screen(text: str) -> str:
    """Text of a document as it may be drawn: a glyph one cell wide for each stand-in."""
    return _STAND_IN.sub(lambda match: _glyph_of(match[0]), text)


def name_of(character: str) -> str:
    """What a stand-in stands for, as people write it (`U+202E`); "" for any other character."""
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
