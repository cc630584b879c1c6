"""Rows of a text that never wraps: the number of a row is the number of its line.

The invariant: it keeps nothing about the text, so there is nothing that an edit could leave wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, overload

from textual._cells import cell_len, cell_width_to_column_index
from textual.document._document import DocumentBase, Location
from textual.document._wrapped_document import WrappedDocument
from textual.expand_tabs import expand_tabs_inline
from textual.geometry import Offset


def is_plain(text: str) -> bool:
    """True when every character is one cell wide."""
    return text.isascii() and "\t" not in text


class UnwrappedDocument(WrappedDocument):
    """A document whose every line is one row.

    Textual's own keeps lists about every line even where nothing wraps, and counts them for each row that is drawn:
    160 ms to open 24,000 lines and 30 ms a key.
    """

    def wrap(self, width: int, tab_width: int | None = None) -> None:
        """Take over the width of a tab; nothing wraps."""
        self._width = 0
        if tab_width:
            self._tab_width = tab_width
        self._offset_to_line_info = cast("list[tuple[int, int]]", _Rows(self.document))

    def wrap_range(self, start: Location, old_end: Location, new_end: Location) -> None:
        """Nothing is kept that an edit could change."""

    @property
    def height(self) -> int:
        """Rows, which are lines."""
        return self.document.line_count

    def offset_to_location(self, offset: Offset) -> Location:
        """The location at a cell of the unscrolled text, or the nearest one."""
        row = min(max(offset.y, 0), self.document.line_count - 1)
        return row, cell_width_to_column_index(self.document.get_line(row), max(offset.x, 0), self._tab_width)

    def location_to_offset(self, location: Location) -> Offset:
        """The cell of a location in the unscrolled text."""
        row = min(max(location[0], 0), self.document.line_count - 1)
        before = self.document.get_line(row)[: location[1]]
        return Offset(len(before) if is_plain(before) else cell_len(expand_tabs_inline(before, self._tab_width)), row)

    def get_sections(self, line_index: int) -> list[str]:
        """The one section of a line."""
        return [self.document.get_line(line_index)]

    def get_offsets(self, line_index: int) -> list[int]:
        """Where the line wraps: nowhere. Raises ValueError when there is no such line."""
        if not 0 <= line_index < self.document.line_count:
            raise ValueError(f"there is no line {line_index} among {self.document.line_count}")
        return []


class _Rows(Sequence[tuple[int, int]]):
    """Line and section of each row, without a list of them."""

    def __init__(self, document: DocumentBase) -> None:
        self._document = document

    def __len__(self) -> int:
        return self._document.line_count

    @overload
    def __getitem__(self, index: int) -> tuple[int, int]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[int, int]]: ...
    def __getitem__(self, index: int | slice) -> tuple[int, int] | Sequence[tuple[int, int]]:
        rows = range(len(self))[index]
        return (rows, 0) if isinstance(rows, int) else [(row, 0) for row in rows]
