"""A one-line text field that never blinks, and leaves the keys it has no use for to whoever holds it.

Textual's own field repaints its cursor twice a second for ever: over a poor line, and on a battery, that is a cost
without a use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.message import Message
from textual.widgets import Input

from tui_workbench.ui.commands import bindings
from tui_workbench.ui.editor_commands import SEARCH_FIELD, SEARCH_STEPS, TEXT_FIELD, TEXT_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.binding import BindingType


class TextField(Input, inherit_bindings=False):
    """A line of text. `enter` posts `Input.Submitted`, every change `Input.Changed`."""

    DEFAULT_CSS = """
    TextField.-textual-compact { height: 1; padding: 0 1; background: $panel; }
    TextField:focus { border: none; background-tint: $foreground 0%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings(TEXT_FIELD)

    def __init__(self, value: str = "", *, placeholder: str = "", id: str | None = None) -> None:
        super().__init__(value, placeholder=placeholder, compact=True, select_on_focus=False, id=id)
        self.cursor_blink = False


class BareField(TextField, inherit_bindings=False):
    """A field that leaves enter to whoever holds it."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(TEXT_KEYS)


class SearchField(TextField):
    """A field above or below a list: up and down move in the list, escape leaves."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(SEARCH_FIELD)

    class Stepped(Message):
        """The cursor of the list should go `rows` down; negative is up."""

        def __init__(self, rows: int) -> None:
            super().__init__()
            self.rows = rows

    class Left(Message):
        """Escape was pressed: the search is over."""

    def action_step(self, rows: int) -> None:
        """Up and down belong to the list."""
        self.post_message(self.Stepped(rows))

    def action_leave(self) -> None:
        """Escape."""
        self.post_message(self.Left())


class NarrowField(SearchField, inherit_bindings=False):
    """A search field that leaves enter and escape to whoever holds it."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(TEXT_KEYS, SEARCH_STEPS)


def matches(needle: str, candidates: Iterable[str]) -> list[str]:
    """The candidates that hold every blank-separated word of `needle`, letter case aside; best first.

    Better is a match in the last path component, then an early one, then a short candidate. An empty needle matches
    all, in order.
    """
    words = needle.lower().split()
    if not words:
        return list(candidates)
    found = []
    for order, candidate in enumerate(candidates):
        folded = candidate.lower()
        if all(word in folded for word in words):
            base = folded.rpartition("/")[2]
            found.append((not all(word in base for word in words), base.find(words[0]), len(folded), order, candidate))
    return [entry[-1] for entry in sorted(found)]
