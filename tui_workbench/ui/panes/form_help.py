"""Two lines under the form: what the field under the cursor is for, and what it can be.

The invariant: all of it comes from the declaration of the field.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from textual.content import Content
from textual.widget import Widget

from tui_workbench.config import schema

if TYPE_CHECKING:
    from tui_workbench.ui.panes.form_rows import FormRow


LINES = 2


class FormHelp(Widget):
    """Help for one row."""

    DEFAULT_CSS = """
    FormHelp { height: 2; padding: 0 1; background: $panel; color: $text-muted; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._row: FormRow | None = None

    def show(self, row: FormRow | None) -> None:
        """Show the help for a row, or nothing."""
        if row != self._row:
            self._row = row
            self.refresh()

    def render(self) -> Content:
        """The sentence, and behind it what the values are as far as there is room."""
        if self._row is None:
            return Content("")
        sentence, values = help_of(self._row)
        both = f"{sentence} {values}"
        return Content(both if len(textwrap.wrap(both, max(self.content_size.width, 1))) <= LINES else sentence)


def help_of(row: FormRow) -> tuple[str, str]:
    """A sentence about the field; and its words, its default or an example, "" without any."""
    field = row.field
    if row.kind == "add":
        article = "an" if row.noun[:1] in "aeiou" else "a"
        return f"Adds {article} {row.noun}. {field.help}", ""
    if field.type == schema.CHOICE:
        return field.help, f"One of: {', '.join(field.choices)}."
    if field.type == schema.BOOLEAN and field.default is not None:
        return field.help, f"Default: {'on' if field.default else 'off'}."
    if field.default not in (None, (), {}):
        return field.help, f"Default: {' '.join(field.default) if isinstance(field.default, tuple) else field.default}"
    return field.help, f"Example: {field.example}" if field.example else ""
