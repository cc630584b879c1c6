"""A labeled text field between other lines, for a filter, tags or a note."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from tui_workbench.ui.widgets.text_field import SearchField


class Steps(Protocol):
    """A list with a cursor. `step` moves the cursor down by `rows`, or up if negative."""

    def step(self, rows: int) -> None: ...

    def focus(self, scroll_visible: bool = True) -> object: ...


class FieldRow(Horizontal):
    """A label and a field, hidden until opened."""

    DEFAULT_CSS = """
    FieldRow { height: 1; display: none; background: $panel; }
    FieldRow > Static { width: auto; padding: 0 1; color: $accent; text-style: bold; }
    FieldRow > SearchField { width: 1fr; }
    """

    def __init__(self, label: str = "", placeholder: str = "") -> None:
        super().__init__()
        self._label = Static(Content(label))
        self.field = SearchField(placeholder=placeholder)
        self._before: Widget | None = None  # the widget that had the focus before the row was opened

    def compose(self) -> ComposeResult:
        yield self._label
        yield self.field

    def open(self, value: str | None = None, *, label: str | None = None) -> None:
        """Show the row and focus its field. `label` must be safe text."""
        self.display = True
        if label is not None:
            self._label.update(Content(label))
        if value is not None:
            self.field.value = value
            self.field.cursor_position = len(value)
        # `has_focus` is late: it is still true after a row was closed and another question follows.
        if self.screen.focused is not self.field:
            self._before = self.screen.focused
        self.screen.set_focus(self.field)

    def close(self) -> None:
        before, self._before = self._before, None
        if self.field.has_focus and before is not None and before.is_on_screen:
            self.screen.set_focus(before)
        self.display = False
        self.screen.refresh_bindings()


class PromptRow(FieldRow):
    """A row that asks for one value."""

    def __init__(self) -> None:
        super().__init__()
        self._then: Callable[[str], object] = lambda text: None

    def ask(self, label: str, value: str, then: Callable[[str], object], *, is_suggestion: bool = False) -> None:
        """Ask for a value and call `then` with it, unless the user cancels. `label` must be safe text.

        A suggested value is selected, so that typing replaces it.
        """
        self._then = then
        self.open(value, label=label)
        if is_suggestion:
            self.field.action_select_all()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.close()  # before the call, which may open the row again for another question
        self._then(event.value)

    @on(SearchField.Left)
    def _left(self, event: SearchField.Left) -> None:
        event.stop()
        self.close()

    def action_leave(self) -> None:
        self.close()


class FilterRow(FieldRow):
    """A filter for a list. Posts `Changed` after each edit."""

    @dataclass(eq=False)
    class Changed(Message):
        """Posted when the filter changes."""

        text: str

    def __init__(self, label: str, placeholder: str, rows: Steps) -> None:
        """`rows` is the filtered list. Up and down move its cursor, and enter returns the focus to it."""
        super().__init__(label, placeholder)
        self._rows = rows

    @property
    def text(self) -> str:
        return self.field.value

    def clear(self) -> None:
        self.field.value = ""
        self.close()
        self._rows.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if not event.value.strip():
            self.close()
        self._rows.focus()

    @on(SearchField.Left)
    def _left(self, event: SearchField.Left) -> None:
        event.stop()
        self.clear()

    @on(SearchField.Stepped)
    def _stepped(self, event: SearchField.Stepped) -> None:
        event.stop()
        self._rows.step(event.rows)
