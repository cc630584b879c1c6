"""The text that an editor holds: its languages, its parsed form, and a form of it that is safe to draw.

The invariants: lines end at a line feed and nowhere else; every character that a terminal might obey or not show stands
in the document as a private stand-in one cell wide, and `source` gives back exactly the characters that were loaded.
"""

from __future__ import annotations

import os
import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from textual._cells import cell_len
from textual._tree_sitter import get_language
from textual.document._document import Document, EditResult, Location
from textual.geometry import Size

from tui_workbench.ui.safetext import glyph, is_safe
from tui_workbench.ui.widgets.unwrapped_document import is_plain

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Query, Tree

_LANGUAGES = {
    ".py": "python",
    ".pyi": "python",
    ".compute": "yaml",
    ".runconfig": "yaml",
    ".yml": "yaml",
    ".yaml": "yaml",
    ".json": "json",
    ".jsonl": "json",
    ".ipynb": "json",
    ".md": "markdown",
    ".markdown": "markdown",
    ".toml": "toml",
    ".sh": "bash",
    ".bash": "bash",
}
_INTERPRETERS = re.compile(r"#!.*\b(python|bash|sh)[\d.]*\b")

LANGUAGE_NAMES = {
    "python": "Python",
    "yaml": "YAML",
    "json": "JSON",
    "markdown": "Markdown",
    "toml": "TOML",
    "bash": "Shell",
}
"""How each language is written for people."""

MOST_PARSED_LINES = 3_000
"""Above this many lines a text is not highlighted: a key in a long JSON list would take longer than a frame."""


def language_of(path: str, first_line: str = "") -> str:
    """The language of a file by its name, else by the interpreter its first line names; "" when it is plain text."""
    by_name = _LANGUAGES.get(os.path.splitext(path)[1].lower(), "")
    if by_name or not (match := _INTERPRETERS.match(first_line)):
        return by_name
    return "python" if match[1] == "python" else "bash"


def preload(languages: tuple[str, ...] = ("yaml", "python", "markdown")) -> None:
    """Import the grammars and compile their queries, 5 to 20 ms each; for a thread of a screen that is idle."""
    for language in languages:
        _grammar(language)


# --- Stand-ins

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


# --- The document


@cache
def _grammar(language: str) -> tuple[Language, Query] | None:
    """The grammar and its compiled highlight query, compiled once for all editors; None when it is not installed."""
    from textual.widgets import TextArea
    from tree_sitter import Query, QueryError

    grammar = get_language(language) if language else None
    if grammar is None:
        return None
    try:
        return grammar, Query(grammar, TextArea._get_builtin_highlight_query(language))
    except QueryError:
        # A grammar of another version than the query was written for: plain text is the honest answer.
        return None


@lru_cache(maxsize=65_536)
def _width_of(line: str, tab_width: int) -> int:
    return len(line) if is_plain(line) else cell_len(line.expandtabs(tab_width))


class SourceDocument(Document):
    """Lines of text that are parsed as a whole and only when somebody asks what they mean.

    Textual's own syntax-aware document lets the parser call back for every token of every line, on every key: 9 ms at
    300 lines. Handing it one block of bytes, once a frame, takes a fiftieth of that.
    """

    def __init__(self, text: str, language: str = "") -> None:
        super().__init__("")
        self._lines = text.split("\n")
        self._plain = is_plain(text)
        grammar = _grammar(language) if language and len(self._lines) <= MOST_PARSED_LINES else None
        self.query: Query | None = grammar[1] if grammar else None
        self._grammar = grammar[0] if grammar else None
        self._tree: Tree | None = None
        self._parsed = False

    def replace_range(self, start: Location, end: Location, text: str) -> EditResult:
        """Replace the text between two locations; the only way to change the document."""
        top, bottom = sorted((start, end))
        self._plain = self._plain and is_plain(text)
        if self._tree is None:
            return super().replace_range(start, end, text)
        start_byte, start_point = self._byte_offset(top), self._point(top)
        old_end_byte, old_end_point = self._byte_offset(bottom), self._point(bottom)
        result = super().replace_range(start, end, text)
        self._tree.edit(
            start_byte=start_byte,
            old_end_byte=old_end_byte,
            new_end_byte=start_byte + len(text.encode()),
            start_point=start_point,
            old_end_point=old_end_point,
            new_end_point=self._point(result.end_location),
        )
        self._parsed = False
        return result

    def highlights(self, first_row: int, last_row: int) -> dict[str, list[Node]]:
        """The nodes that the language's query names, of those that touch the rows; empty without a language."""
        from tree_sitter import Parser, QueryCursor

        if self._grammar is None or self.query is None:
            return {}
        if not self._parsed:
            parser, data = Parser(self._grammar), self.text.encode()
            self._tree = parser.parse(data, self._tree) if self._tree else parser.parse(data)
            self._parsed = True
        assert self._tree is not None
        cursor = QueryCursor(self.query)
        cursor.set_point_range((first_row, 0), (last_row + 1, 0))
        return cursor.captures(self._tree.root_node)

    def get_size(self, tab_width: int) -> Size:
        """Cells of the widest line, and the number of lines."""
        widths = map(len, self._lines) if self._plain else (_width_of(line, tab_width) for line in self._lines)
        return Size(max(widths), len(self._lines))

    def _byte_offset(self, location: Location) -> int:
        row, column = location
        above = "\n".join(self._lines[:row])
        return len(above.encode()) + (1 if row else 0) + self._point((row, column))[1]

    def _point(self, location: Location) -> tuple[int, int]:
        row, column = location
        return row, len(self._lines[row][:column].encode()) if row < len(self._lines) else 0
