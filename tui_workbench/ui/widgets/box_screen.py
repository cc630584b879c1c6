"""A dialog: a box with a title over another screen, and the keys below what is in it."""

from __future__ import annotations

from typing import TypeVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget

from tui_workbench.ui.terminal.screens import DialogScreen
from tui_workbench.ui.widgets.footer import KeyFooter

Result = TypeVar("Result")


class BoxScreen(DialogScreen[Result], inherit_bindings=False):
    """Shows the widgets that it is given in a box."""

    def __init__(self, title: str, *children: Widget) -> None:
        """`title` must be safe text."""
        super().__init__()
        self._box = Vertical(*children, KeyFooter())
        self._box.border_title = Content(title)

    def compose(self) -> ComposeResult:
        yield self._box
