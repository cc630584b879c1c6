"""A one-line text field that never blinks, and leaves the keys it has no use for to whoever holds it.

Textual's own field repaints its cursor twice a second for ever: over a poor line, and on a battery, that is a cost
without a use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from textual.message import Message
from textual.widgets import Input

from tui_workbench.ui.commands.command import bindings
from tui_workbench.ui.commands.editor_commands import SEARCH_FIELD, SEARCH_STEPS, TEXT_FIELD, TEXT_KEYS


class TextField(Input, inherit_bindings=False):
    """A line of text. `enter` posts `Input.Submitted`, every change `Input.Changed`.

    Subclasses bind keys that move in a list and leave the field.
    """

    DEFAULT_CSS = """
    TextField.-textual-compact { height: 1; padding: 0 1; background: $panel; }
    TextField:focus { border: none; background-tint: $foreground 0%; }
    """
    BINDINGS = TEXT_FIELD.bindings

    @dataclass(eq=False)
    class Stepped(Message):
        """The cursor of the list should go `rows` down; negative is up."""

        rows: int

    class Left(Message):
        """Escape was pressed: the search is over."""

    def __init__(self, value: str = "", *, placeholder: str = "", id: str | None = None) -> None:
        super().__init__(value, placeholder=placeholder, compact=True, select_on_focus=False, id=id)
        self.cursor_blink = False

    def action_step(self, rows: int) -> None:
        self.post_message(self.Stepped(rows))

    def action_leave(self) -> None:
        self.post_message(self.Left())


class BareField(TextField, inherit_bindings=False):
    """A field that leaves enter to whoever holds it."""

    BINDINGS = bindings(TEXT_KEYS)


class SearchField(TextField):
    """A field above or below a list: up and down move in the list, escape leaves.

    With `choose` and `leave`, enter and escape are calls: the next key that was typed ahead must find them done.
    """

    BINDINGS = SEARCH_FIELD.bindings

    def __init__(
        self,
        placeholder: str = "",
        *,
        choose: Callable[[], object] | None = None,
        leave: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(placeholder=placeholder)
        self._choose, self._leave = choose, leave

    async def action_submit(self) -> None:
        if self._choose is None:
            await super().action_submit()
        else:
            self._choose()

    def action_leave(self) -> None:
        if self._leave is None:
            super().action_leave()
        else:
            self._leave()


class NarrowField(TextField, inherit_bindings=False):
    """A search field that leaves enter and escape to whoever holds it."""

    BINDINGS = bindings((*TEXT_KEYS, *SEARCH_STEPS))


def matches(needle: str, candidates: Iterable[str]) -> list[str]:
    """The candidates that hold every blank-separated word of `needle`, letter case aside; best first.

    Better is a match in the last path component, then an early one, then a short candidate. Behind these come the
    candidates whose first line has the letters of each word in their order, the first of them at the start of a word.
    An empty needle matches all, in order.
    """
    words = needle.lower().split()
    if not words:
        return list(candidates)
    scattered = [_scattered(word) for word in words]
    found = []
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
        found.append((rank, order, candidate))
    return [candidate for _, _, candidate in sorted(found)]


def _scattered(word: str) -> re.Pattern[str]:
    """The letters of a word with others between them.

    Each gap ends at the first place of the next letter, so that a search is linear, whatever a project calls its files;
    `textual.fuzzy` tries all places of all letters.
    """
    first, rest = word[0], word[1:]
    gaps = "".join(f"[^{re.escape(letter)}]*{re.escape(letter)}" for letter in rest)
    return re.compile(rf"(?<![^\W_]){re.escape(first)}{gaps}")
