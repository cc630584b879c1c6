"""One line of text being edited: the text, the cursor, and what keys do to them.

The invariant: it knows keys and characters and nothing of a screen, so that a widget that draws itself can edit in
place without handing the focus, and the keys that were typed ahead, to another widget.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rich.cells import cell_len

from tui_workbench.ui.widgets.source_document import to_document, to_screen

_WORD_LEFT = re.compile(r"\w*\W*$")
_WORD_RIGHT = re.compile(r"^\W*\w*")


class Window(NamedTuple):
    """The part of the line that is drawn: safe text, and the cells of it that the cursor covers."""

    before: str
    under: str
    after: str


class LineBuffer:
    """A line with a cursor. While `is_fresh` the whole text counts as selected: typing replaces it."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.cursor = len(text)
        self.is_fresh = bool(text)

    def press(self, key: str, character: str | None) -> bool:
        """Do what a key says; False when it means nothing to a line of text."""
        if character is not None and character.isprintable():
            self.insert(character)
            return True
        action = _KEYS.get(key)
        if action is None:
            return False
        action(self)
        self.is_fresh = False
        return True

    def insert(self, text: str) -> None:
        """Put text at the cursor; line ends become blanks."""
        text = re.sub(r"[\r\n]+", " ", text)
        if self.is_fresh:
            self.text, self.cursor, self.is_fresh = "", 0, False
        self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
        self.cursor += len(text)

    def replace(self, text: str) -> None:
        """Another text, with the cursor behind it."""
        self.text, self.cursor, self.is_fresh = text, len(text), False

    def window(self, width: int) -> Window:
        """What of the line is seen in `width` cells, so that the cursor is in it."""
        shown = to_screen(to_document(self.text)).replace("\t", " ")
        start = 0
        while cell_len(shown[start : self.cursor]) > max(width - 2, 0):
            start += 1
        under = shown[self.cursor : self.cursor + 1] or " "
        before = shown[start : self.cursor]
        room = width - cell_len(before) - cell_len(under)
        after = shown[self.cursor + 1 :]
        while after and cell_len(after) > room:
            after = after[:-1]
        return Window(before, under, after)

    def go_to_cell(self, cell: int, width: int) -> None:
        """Put the cursor on the character at a cell of the window."""
        window = self.window(width)
        shown = window.before + window.under + window.after
        first = self.cursor - len(window.before)
        count = next((index for index in range(len(shown)) if cell_len(shown[: index + 1]) > cell), len(shown))
        self.cursor = min(first + count, len(self.text))
        self.is_fresh = False

    # --- Keys

    def _left(self) -> None:
        self.cursor = 0 if self.is_fresh else max(0, self.cursor - 1)

    def _right(self) -> None:
        self.cursor = min(len(self.text), self.cursor + 1)

    def _home(self) -> None:
        self.cursor = 0

    def _end(self) -> None:
        self.cursor = len(self.text)

    def _word_left(self) -> None:
        match = _WORD_LEFT.search(self.text[: self.cursor])
        self.cursor = match.start() if match else 0

    def _word_right(self) -> None:
        match = _WORD_RIGHT.search(self.text[self.cursor :])
        self.cursor += match.end() if match else 0

    def _cut(self, start: int, end: int) -> None:
        if self.is_fresh:
            start, end = 0, len(self.text)
        self.text = self.text[:start] + self.text[end:]
        self.cursor = start

    def _backspace(self) -> None:
        self._cut(max(0, self.cursor - 1), self.cursor)

    def _delete(self) -> None:
        self._cut(self.cursor, self.cursor + 1)

    def _cut_word(self) -> None:
        end = self.cursor
        self._word_left()
        self._cut(self.cursor, end)

    def _cut_to_start(self) -> None:
        self._cut(0, self.cursor)

    def _cut_to_end(self) -> None:
        self._cut(self.cursor, len(self.text))


_KEYS = {
    "left": LineBuffer._left,
    "right": LineBuffer._right,
    "home": LineBuffer._home,
    "ctrl+a": LineBuffer._home,
    "end": LineBuffer._end,
    "ctrl+e": LineBuffer._end,
    "ctrl+left": LineBuffer._word_left,
    "ctrl+right": LineBuffer._word_right,
    "backspace": LineBuffer._backspace,
    "delete": LineBuffer._delete,
    "ctrl+backspace": LineBuffer._cut_word,
    "alt+backspace": LineBuffer._cut_word,
    "ctrl+u": LineBuffer._cut_to_start,
    "ctrl+k": LineBuffer._cut_to_end,
}
