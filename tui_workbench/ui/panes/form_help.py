"""Two lines under the form: what the field under the cursor is for, and what it can be.

The invariant: all of it comes from the declaration of the field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.widget import Widget

from tui_workbench.config import schema

if TYPE_CHECKING:
    from tui_workbench.ui.panes.form_rows import FormRow


class FormHelp(Widget):
    """Help for one row."""

    DEFAULT_CSS = """
    FormHelp { height: 2; padding: 0 1; background: $panel; color: $text-muted; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._text = ""

    def show(self, row: FormRow | None) -> None:
        """Show the help for a row, or nothing."""
        text = "" if row is None else help_of(row)
        if text != self._text:
            self._text = text
            self.refresh()

    def render(self) -> Content:
        """The help."""
        return Content(self._text)


def help_of(row: FormRow) -> str:
    """A sentence about the field, its words or default, and an example."""
    field = row.field
    if row.kind == "add":
        return f"Adds a {row.noun}. {field.help}"
    parts = [field.help]
    if field.type == schema.CHOICE:
        parts.append(f"One of: {', '.join(field.choices)}.")
    elif field.default not in (None, (), {}) and field.type != schema.BOOLEAN:
        default = " ".join(field.default) if isinstance(field.default, tuple) else field.default
        parts.append(f"Default: {default}")
    elif field.type == schema.BOOLEAN and field.default is not None:
        parts.append(f"Default: {'on' if field.default else 'off'}.")
    elif field.example:
        parts.append(f"Example: {field.example}")
    return " ".join(parts)
