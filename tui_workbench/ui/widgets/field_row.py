"""One line to type into, named, between other lines: a filter, tags, a note."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from tui_workbench.ui.widgets.text_field import SearchField

if TYPE_CHECKING:
    from textual.app import ComposeResult


class FieldRow(Horizontal):
    """A label and a field; hidden until it is opened. What is typed is told by the field's own messages."""

    DEFAULT_CSS = """
    FieldRow { height: 1; display: none; background: $panel; }
    FieldRow > Static { width: auto; padding: 0 1; color: $accent; text-style: bold; }
    FieldRow > SearchField { width: 1fr; }
    """

    def __init__(self, label: str = "", placeholder: str = "", *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._label = Static(Content(label))
        self.field = SearchField(placeholder=placeholder)
        self.about_what = ""

    def compose(self) -> ComposeResult:
        """The label, then the field."""
        yield self._label
        yield self.field

    def open(self, value: str | None = None, *, label: str | None = None, about: str = "") -> None:
        """Show the row and type into it; `label` must be safe text, and `about` is remembered for the owner."""
        self.display = True
        self.about_what = about
        if label is not None:
            self._label.update(Content(label))
        if value is not None:
            self.field.value = value
            self.field.cursor_position = len(value)
        self.screen.set_focus(self.field)

    def close(self) -> None:
        """Hide the row."""
        self.display = False
