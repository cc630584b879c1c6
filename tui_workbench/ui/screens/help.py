"""The `?` screen: what the pane with the focus is for, and every key that does something there or everywhere.

It is a view of the registry of commands at the moment it is opened; a command that is not available says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from tui_workbench.ui.commands import HELP, all_key_labels, bindings, offers
from tui_workbench.ui.panes.pane import Pane
from tui_workbench.ui.themes import palette_of

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.dom import DOMNode

    from tui_workbench.ui.commands import Offer
    from tui_workbench.ui.themes import Palette


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

    def compose(self) -> ComposeResult:
        """One text, which scrolls where it does not fit."""
        box = VerticalScroll()
        box.border_title = Content("Help")
        box.border_subtitle = Content("esc closes")
        with box:
            palette = palette_of(self)
            for section in self._sections:
                yield Static(_section_text(section, palette))

    def action_close(self) -> None:
        """Back to where one was."""
        self.dismiss(None)


def sections(screen: Screen[Any]) -> list[Section]:
    """What there is to explain now: the widget with the focus, what it stands in, and what works everywhere."""
    found = []
    for node in screen.focused.ancestors_with_self if screen.focused is not None else [screen]:
        commands = [offer for offer in offers(node) if offer.command.help]
        if commands and node is not screen.app:
            found.append(Section(_heading(node), getattr(node, "about", ""), commands))
    return found


def _heading(node: DOMNode) -> str:
    if isinstance(node, Pane):
        return f"{node.number} {node.title}"
    return "Everywhere" if isinstance(node, Screen) else _HEADINGS.get(type(node).__name__, "Here")


_HEADINGS = {"RowList": "In the list", "RunBar": "Run bar", "TextEditor": "In the text", "LogView": "In the log"}


def _section_text(section: Section, palette: Palette) -> Content:
    lines = [Content.styled(section.heading, f"bold {palette.accent}")]
    if section.about:
        lines.append(Content.styled(section.about, palette.text))
    lines.append(Content(""))
    keys = [all_key_labels(offer.command.keys) if offer.command.keys else "ctrl+p" for offer in section.commands]
    width = max((len(key) for key in keys), default=0)
    for key, offer in zip(keys, section.commands, strict=True):
        note = Content.styled(f"  {offer.reason}", f"italic {palette.muted}") if offer.reason else Content("")
        lines.append(
            Content.assemble(
                (f"{key:<{width}}  ", f"bold {palette.muted if offer.reason else palette.accent}"),
                (f"{offer.command.name:<12}  ", f"{palette.muted if offer.reason else palette.text}"),
                (offer.command.help, palette.muted),
                note,
            )
        )
    lines.append(Content(""))
    return Content("\n").join(lines)
