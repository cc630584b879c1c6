"""An editable line of text: the text, the cursor, and the keys that change them.

A buffer is not a widget. A widget that draws its own lines uses a buffer to edit in place, without moving the focus, so
that no key typed ahead is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from rich.cells import cell_len

from tui_workbench.ui.terminal.stand_ins import to_document, to_screen


class Window(NamedTuple):
    """The visible part of the line, as safe text before, under and after the cursor."""

    before: str
    under: str
    after: str


class LineBuffer:
    """A line with a cursor. While `is_fresh`, the whole text is selected, and typing replaces it."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.cursor = len(text)
        self.is_fresh = bool(text)

    def press(self, key: str, character: str | None) -> bool:
        """Handle a key. Return False for a key that does not edit text."""
        if character is not None and character.isprintable():
            self.insert(character)
            return True
        move = _MOVES.get(_CUTS.get(key, key))
        if move is None:
            return False
        start, end = sorted((self.cursor, move(self.text, self.cursor)))
        if self.is_fresh and (key in _CUTS or key == "left"):
            start, end = 0, len(self.text)
        if key in _CUTS:
            self.text = self.text[:start] + self.text[end:]
        self.cursor = start if key in _CUTS or start < self.cursor else end
        self.is_fresh = False
        return True

    def insert(self, text: str) -> None:
        """Insert text at the cursor; line endings become spaces."""
        text = re.sub(r"[\r\n]+", " ", text)
        if self.is_fresh:
            self.text, self.cursor, self.is_fresh = "", 0, False
        self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
        self.cursor += len(text)

    def replace(self, text: str) -> None:
        """Set the text, and move the cursor to its end."""
        self.text, self.cursor, self.is_fresh = text, len(text), False

    def window(self, width: int) -> Window:
        """Return the part of the line around the cursor that fits into `width` cells."""
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
        """Move the cursor to the character at a cell of the window."""
        window = self.window(width)
        shown = window.before + window.under + window.after
        first = self.cursor - len(window.before)
        count = next((index for index in range(len(shown)) if cell_len(shown[: index + 1]) > cell), len(shown))
        self.cursor = min(first + count, len(self.text))
        self.is_fresh = False


_MOVES: dict[str, Callable[[str, int], int]] = {
    "left": lambda text, cursor: max(0, cursor - 1),
    "right": lambda text, cursor: min(len(text), cursor + 1),
    "home": lambda text, cursor: 0,
    "ctrl+a": lambda text, cursor: 0,
    "end": lambda text, cursor: len(text),
    "ctrl+e": lambda text, cursor: len(text),
    "ctrl+left": lambda text, cursor: len(re.sub(r"\w*\W*$", "", text[:cursor], count=1)),
    "ctrl+right": lambda text, cursor: len(text) - len(re.sub(r"^\W*\w*", "", text[cursor:], count=1)),
}
"""By key, a function that returns the new position of the cursor, given the text and the old position."""

_CUTS = {
    "backspace": "left",
    "delete": "right",
    "ctrl+backspace": "ctrl+left",
    "alt+backspace": "ctrl+left",
    "ctrl+u": "home",
    "ctrl+k": "end",
}
"""Keys that delete up to the position to which another key would move the cursor."""
