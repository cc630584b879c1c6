"""Text fields of one line, and the search that ranks candidates for the typed words.

The cursor does not blink: Textual would repaint it twice a second, which costs bandwidth and battery.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from textual.message import Message
from textual.widgets import Input

from tui_workbench.ui.commands.command import bindings
from tui_workbench.ui.commands.editor_commands import SEARCH_FIELD, TEXT_FIELD, TEXT_KEYS


class TextField(Input, inherit_bindings=False):
    """A text field of one line. Subclasses bind keys that move the cursor of a list or leave the field."""

    DEFAULT_CSS = """
    TextField.-textual-compact { height: 1; padding: 0 1; background: $panel; }
    TextField:focus { border: none; background-tint: $foreground 0%; }
    """
    BINDINGS = TEXT_FIELD.bindings

    @dataclass(eq=False)
    class Stepped(Message):
        """Posted to move the cursor of the list down by `rows`, or up if negative."""

        rows: int

    class Left(Message):
        """Posted when escape is pressed."""

    def __init__(self, value: str = "", *, placeholder: str = "", id: str | None = None) -> None:
        super().__init__(value, placeholder=placeholder, compact=True, select_on_focus=False, id=id)
        self.cursor_blink = False

    def action_step(self, rows: int) -> None:
        self.post_message(self.Stepped(rows))

    def action_leave(self) -> None:
        self.post_message(self.Left())


class BareField(TextField, inherit_bindings=False):
    """A field without a binding for enter."""

    BINDINGS = bindings(TEXT_KEYS)


class SearchField(TextField):
    """A field above a list. Up and down move the cursor of the list; escape leaves the field."""

    BINDINGS = SEARCH_FIELD.bindings


def matches(needle: str, candidates: Iterable[str]) -> list[str]:
    """Return the candidates that match every word of `needle`, ignoring case, best first.

    Candidates that contain every word come first: those with the words in the last path component, then early matches,
    then short candidates. They are followed by candidates whose first line contains the letters of each word in order,
    the first letter at the start of a word. An empty needle matches all candidates, in order.
    """
    words = needle.lower().split()
    if not words:
        return list(candidates)
    scattered = [_scattered(word) for word in words]
    ranked = []
    for order, candidate in enumerate(candidates):
        folded = candidate.lower()
        if all(word in folded for word in words):
            base = folded.rpartition("/")[2]
            rank = (0, int(not all(word in base for word in words)), base.find(words[0]), len(folded))
        else:
            line = folded.partition("\n")[0]
            spans = [match.end() - match.start() for pattern in scattered if (match := pattern.search(line))]
            if len(spans) < len(words):
                continue
            rank = (1, sum(spans), len(line), 0)
        ranked.append((rank, order, candidate))
    return [candidate for _, _, candidate in sorted(ranked)]


def _scattered(word: str) -> re.Pattern[str]:
    """Return a pattern for the letters of a word with other letters between them.

    Each gap ends at the next letter of the word, so that the search is linear; `textual.fuzzy` tries all positions.
    """
    first, rest = word[0], word[1:]
    gaps = "".join(f"[^{re.escape(letter)}]*{re.escape(letter)}" for letter in rest)
    return re.compile(rf"(?<![^\W_]){re.escape(first)}{gaps}")
