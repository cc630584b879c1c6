"""The `?` screen: what the pane with the focus is for, and every key that does something there or everywhere.

It is a view of the registry of commands at the moment it is opened; a command that is not available says why.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from tui_workbench.ui.command import shown_key
from tui_workbench.ui.commands import bindings
from tui_workbench.ui.dialog_commands import HELP
from tui_workbench.ui.key_names import all_key_labels
from tui_workbench.ui.offers import is_ours, offers
from tui_workbench.ui.panes.pane import Pane
from tui_workbench.ui.themes import palette_of

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.dom import DOMNode

    from tui_workbench.ui.offers import Offer
    from tui_workbench.ui.themes import Palette


KEYS_WIDTH = 14
NAME_WIDTH = 14
BOX_WIDTH = 84
MARGIN = 8
"""Cells of the box that its text does not have: borders, padding, and the scroll bar."""


class Section:
    """A part of the help: a heading, an explanation and commands."""

    def __init__(self, heading: str, about: str, commands: list[Offer]) -> None:
        self.heading = heading
        self.about = about
        self.commands = commands


class HelpScreen(ModalScreen[None], inherit_bindings=False):
    """Explains; any key that leaves a screen leaves it."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(HELP)
    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $background 60%; }
    HelpScreen > VerticalScroll {
        width: 84; max-width: 96%; height: auto; max-height: 90%;
        background: $panel; border: round $border; padding: 0 2; scrollbar-size: 1 1;
        border-title-color: $border; border-subtitle-color: $text-muted;
    }
    HelpScreen Static { width: 1fr; }
    """

    def __init__(self, sections: list[Section]) -> None:
        super().__init__()
        self._sections = sections
        self._box = VerticalScroll(can_focus=False)

    def compose(self) -> ComposeResult:
        """One text, which scrolls where it does not fit."""
        width = min(BOX_WIDTH, self.app.size.width * 96 // 100) - MARGIN
        box = self._box
        box.border_title = Content("Help")
        box.border_subtitle = Content("esc closes")
        with box:
            palette = palette_of(self)
            for section in self._sections:
                yield Static(_section_text(section, palette, width))

    def action_close(self) -> None:
        """Back to where one was."""
        self.dismiss(None)

    def action_scroll(self, pages: float) -> None:
        """So many pages, or a line when less than half of one is asked for."""
        rows = round(pages * max(1, self._box.size.height - 1)) if abs(pages) >= 0.5 else (1 if pages > 0 else -1)
        self._box.scroll_relative(y=rows, animate=False)

    def action_end(self, last: bool) -> None:
        """To the first line, or to the last."""
        self._box.scroll_to(y=self._box.max_scroll_y if last else 0, animate=False)


def sections(screen: Screen[Any]) -> list[Section]:
    """What there is to explain now: the widget with the focus, what it stands in, and what works everywhere."""
    nodes = list(screen.focused.ancestors_with_self) if screen.focused is not None else [screen]
    # What a pane is for comes before how one moves in its list.
    nodes.sort(key=lambda node: not getattr(node, "about", ""))
    found = []
    for node in nodes:
        commands = [offer for offer in offers(node) if offer.command.help]
        if commands and is_ours(node):
            found.append(Section(_heading(node), getattr(node, "about", ""), commands))
    return found


def _heading(node: DOMNode) -> str:
    if isinstance(node, Pane):
        return f"{node.number} {node.title}"
    if isinstance(node, Screen):
        return getattr(node, "heading", "") or "Everywhere"
    if isinstance(node, App):
        return "On every screen"
    return _HEADINGS.get(type(node).__name__, "Here")


_HEADINGS = {
    "RowList": "In the list",
    "FilterList": "In the list",
    "LinesView": "In the text",
    "RunTable": "In the table",
    "RunBar": "Run bar",
    "TextEditor": "In the text",
    "TextView": "In the text",
    "LogView": "In the log",
    "Chart": "Chart",
    "MetricsPanel": "Metrics",
    "FilePanel": "Files",
}
"""What widgets are called that are no panes."""


def _section_text(section: Section, palette: Palette, width: int) -> Content:
    lines = [Content.styled(section.heading, f"bold {palette.accent}")]
    lines += [Content.styled(line, palette.text) for line in textwrap.wrap(section.about, width)]
    lines.append(Content(""))
    for offer in section.commands:
        lines += _command_lines(offer, palette, width)
    return Content("\n").join([*lines, Content("")])


def _command_lines(offer: Offer, palette: Palette, width: int) -> list[Content]:
    """Key and name, and beside them what it does, wrapped under itself."""
    command, reason = offer.command, offer.reason
    keys = all_key_labels(command.keys) if command.keys else shown_key("palette.open", "ctrl+p")
    loud, plain = (palette.muted, palette.muted) if reason else (palette.accent, palette.text)
    help_lines = textwrap.wrap(command.help, width - KEYS_WIDTH - NAME_WIDTH)
    first = Content.assemble(
        (f"{keys:<{KEYS_WIDTH}}", f"bold {loud}"),
        (f"{command.name:<{NAME_WIDTH}}", plain),
        (help_lines[0], palette.muted),
    )
    indent = " " * (KEYS_WIDTH + NAME_WIDTH)
    rest = [Content.styled(f"{indent}{line}", palette.muted) for line in help_lines[1:]]
    why = [Content.styled(f"{indent}{line}", palette.warning) for line in textwrap.wrap(reason, width - len(indent))]
    return [first, *rest, *why]
