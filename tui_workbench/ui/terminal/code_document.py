"""The document of an editor: unwrapped lines that are parsed as a whole, on demand. Lines end at line feeds only."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, cast

from rich.cells import cell_len
from textual._cells import cell_width_to_column_index
from textual._tree_sitter import get_language
from textual.expand_tabs import expand_tabs_inline
from textual.geometry import Offset, Size
from textual.widgets import TextArea
from textual.widgets.text_area import Document as TextDocument
from textual.widgets.text_area import EditResult, Location, WrappedDocument

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Query, Tree

MAX_PARSED_LINES = 3_000
"""Maximum number of lines of a highlighted text. Parsing a longer JSON list after a key press would delay a frame."""


def preload(languages: tuple[str, ...] = ("yaml", "python", "markdown")) -> None:
    """Import the grammars and compile their queries, 5 to 20 ms each. Call this in a thread."""
    for language in languages:
        _grammar(language)


@cache
def _grammar(language: str) -> tuple[Language, Query] | None:
    """Return a grammar and its highlight query, compiled once for all editors; None if unavailable."""
    from tree_sitter import Query, QueryError

    grammar = get_language(language) if language else None
    if grammar is None:
        return None
    try:
        return grammar, Query(grammar, TextArea._get_builtin_highlight_query(language))
    except QueryError:
        return None  # the query is for another version of the grammar


@lru_cache(maxsize=65_536)
def _width_of(line: str, tab_width: int) -> int:
    return len(line) if is_plain(line) else cell_len(line.expandtabs(tab_width))


class SourceDocument(TextDocument):
    """A document of lines that are parsed as a whole, on demand.

    In Textual's document, the parser makes a callback for every token at every key press: 9 ms for 300 lines.
    Parsing one `bytes` object once per frame is 50 times faster.
    """

    def __init__(self, text: str, language: str = "") -> None:
        super().__init__("")
        self._lines = text.split("\n")
        self._plain = is_plain(text)
        grammar = _grammar(language) if language and len(self._lines) <= MAX_PARSED_LINES else None
        self.query: Query | None = grammar[1] if grammar else None
        self._grammar = grammar[0] if grammar else None
        self._tree: Tree | None = None
        self._parsed = False

    def replace_range(self, start: Location, end: Location, text: str) -> EditResult:
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
        """Return the nodes in these rows, keyed by the name of their highlight; an empty dict without a language."""
        from tree_sitter import Parser, QueryCursor

        if self._grammar is None or self.query is None:
            return {}
        tree = self._tree
        if tree is None or not self._parsed:
            parser, data = Parser(self._grammar), self.text.encode()
            tree = self._tree = parser.parse(data, tree) if tree is not None else parser.parse(data)
            self._parsed = True
        cursor = QueryCursor(self.query)
        cursor.set_point_range((first_row, 0), (last_row + 1, 0))
        return cursor.captures(tree.root_node)

    def get_size(self, tab_width: int) -> Size:
        widths = map(len, self._lines) if self._plain else (_width_of(line, tab_width) for line in self._lines)
        return Size(max(widths), len(self._lines))

    def _byte_offset(self, location: Location) -> int:
        row, column = location
        above = "\n".join(self._lines[:row])
        return len(above.encode()) + (1 if row else 0) + self._point((row, column))[1]

    def _point(self, location: Location) -> tuple[int, int]:
        row, column = location
        return row, len(self._lines[row][:column].encode()) if row < len(self._lines) else 0


def is_plain(text: str) -> bool:
    """Return True if every character is known to be one cell wide."""
    return text.isascii() and "\t" not in text


class UnwrappedDocument(WrappedDocument):
    """A document in which each line is one row.

    Textual's `WrappedDocument` keeps tables of all lines even if no line wraps. For 24,000 lines, the tables cost
    160 ms when a file is opened and 30 ms per key press.
    """

    def wrap(self, width: int, tab_width: int | None = None) -> None:
        self._width = 0
        if tab_width:
            self._tab_width = tab_width
        self._offset_to_line_info = cast("list[tuple[int, int]]", _Rows())

    def wrap_range(self, start: Location, old_end: Location, new_end: Location) -> None:
        """Do nothing, because no line wraps."""

    @property
    def height(self) -> int:
        return self.document.line_count

    def offset_to_location(self, offset: Offset) -> Location:
        row = min(max(offset.y, 0), self.document.line_count - 1)
        return row, cell_width_to_column_index(self.document.get_line(row), max(offset.x, 0), self._tab_width)

    def location_to_offset(self, location: Location) -> Offset:
        row = min(max(location[0], 0), self.document.line_count - 1)
        before = self.document.get_line(row)[: location[1]]
        return Offset(len(before) if is_plain(before) else cell_len(expand_tabs_inline(before, self._tab_width)), row)

    def get_sections(self, line_index: int) -> list[str]:
        return [self.document.get_line(line_index)]

    def get_offsets(self, line_index: int) -> list[int]:
        if not 0 <= line_index < self.document.line_count:
            raise ValueError(f"line {line_index} of {self.document.line_count}")
        return []


class _Rows:
    """A sequence of the line and section of each row, computed on demand."""

    def __getitem__(self, row: int) -> tuple[int, int]:
        return row, 0
