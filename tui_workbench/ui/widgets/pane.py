"""The base of panes: a number, a title in the border, and the reasons why commands are unavailable.

Panes receive the data that they show and post messages; they do not call each other.
"""

from __future__ import annotations

from typing import ClassVar

from textual.content import Content
from textual.widget import Widget

from tui_workbench.ui.commands.available_commands import ExplainsUnavailable


class Pane(ExplainsUnavailable, Widget, inherit_bindings=False):
    """A box of the main screen. `about` is its text in the help."""

    DEFAULT_CSS = "Pane { layout: vertical; }"
    ALLOW_SELECT = False

    number: ClassVar[int]
    title: ClassVar[str]
    short_title: ClassVar[str] = ""  # title in the palette
    about: ClassVar[str]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, classes="pane")
        self.set_title()

    def set_title(self, detail: str = "") -> None:
        """Show number, title and `detail`, which must be safe text, in the border."""
        self.border_title = Content(f"{self.number} {self.title}{'  ' + detail if detail else ''}")

    def why_not(self, action: str) -> str:
        return ""

    def take_focus(self) -> None:
        """Focus the main widget of the pane.

        Use `screen.set_focus`: `Widget.focus` is delayed, and keys typed ahead would go elsewhere.
        """
        raise NotImplementedError
