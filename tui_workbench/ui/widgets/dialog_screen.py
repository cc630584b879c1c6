"""A dialog: a box over another screen, which stays visible around it."""

from __future__ import annotations

from typing import TypeVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget

from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.terminal.textual_internals import install_compositor
from tui_workbench.ui.widgets.footer import KeyFooter

Result = TypeVar("Result")


class DialogScreen(ModalScreen[Result], inherit_bindings=False):
    """A screen that shows a box over another screen."""

    DEFAULT_CSS = """
    DialogScreen { align: center middle; background: $background 60%; }
    DialogScreen > Vertical, DialogScreen > TextView {
        width: 100; max-width: 96%; height: auto; max-height: 90%; background: $background; border: round $border;
        border-title-color: $border; border-title-style: bold; border-subtitle-color: $text-muted;
    }
    """

    def __init__(self, box: Widget) -> None:
        super().__init__()
        install_compositor(self)
        self.box = box

    def compose(self) -> ComposeResult:
        yield self.box


def box_of(title: str, *children: Widget) -> Vertical:
    """Return a box with an untrusted title, the widgets, and a key footer."""
    box = Vertical(*children, KeyFooter())
    box.border_title = Content(safe_text(title))
    return box
