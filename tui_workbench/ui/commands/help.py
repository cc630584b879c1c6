"""The `?` screen: what the pane with the focus is for, and every key that does something there or everywhere.

It is a view of the registry of commands at the moment it is opened; a command that is not available says why.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from textual.app import App
from textual.content import Content
from textual.dom import DOMNode
from textual.screen import Screen

from tui_workbench.ui.commands.available_commands import CommandState, command_states, is_ours
from tui_workbench.ui.commands.command import Command, all_key_labels, shown_key
from tui_workbench.ui.commands.screen_commands import HELP
from tui_workbench.ui.widgets.dialog_screen import DialogScreen
from tui_workbench.ui.widgets.pane import Pane
from tui_workbench.ui.widgets.pieces import Piece
from tui_workbench.ui.widgets.text_view import Line, TextView

COLUMN_GAP = 2
"""Cells between the keys, the names and the explanations."""

LEAST_HELP = 30
"""Cells that the explanations have at least: above that, the first two columns are as wide as what they hold."""


class Section(NamedTuple):
    """A part of the help: a heading, an explanation and commands."""

    heading: str
    about: str
    commands: list[CommandState]


class HelpScreen(DialogScreen[None], inherit_bindings=False):
    """Explains; any key that leaves a screen leaves it."""

    BINDINGS = HELP.bindings
    DEFAULT_CSS = "HelpScreen > TextView.-fitted { width: 96; padding: 0 2; }"

    def __init__(self, sections: list[Section]) -> None:
        self._text = TextView(make=partial(help_lines, sections))
        super().__init__(self._text)
        self._text.can_focus = False
        self._text.border_title = Content("Help")
        self._text.border_subtitle = Content("esc closes")

    def action_close(self) -> None:
        self.dismiss(None)

    def action_scroll(self, pages: float) -> None:
        self._text.action_scroll(pages)

    def action_end(self, last: bool) -> None:
        self._text.action_end(last)


def sections(screen: Screen[Any]) -> list[Section]:
    """What there is to explain now: the widget with the focus, what it stands in, and what works everywhere."""
    nodes = list(screen.focused.ancestors_with_self) if screen.focused is not None else [screen]
    # What a pane is for comes before how one moves in its list.
    nodes.sort(key=lambda node: not getattr(node, "about", ""))
    found = []
    for node in nodes:
        commands = [offer for offer in command_states(node) if offer.command.help]
        if commands and is_ours(node):
            found.append(Section(_heading(node), getattr(node, "about", ""), commands))
    return found


def _heading(node: DOMNode) -> str:
    """Panes have a number and a title; other widgets may have a `heading`."""
    if isinstance(node, Pane):
        return f"{node.number} {node.title}"
    usual = "Everywhere" if isinstance(node, Screen) else "On every screen" if isinstance(node, App) else "Here"
    return getattr(node, "heading", "") or usual


def help_lines(sections: Sequence[Section], width: int) -> list[Line]:
    """The sections as a table of keys, names and explanations.

    The columns are as wide as what they hold, the same in all sections; very long lists of keys are wrapped.
    """
    commands = [offer.command for section in sections for offer in section.commands]
    name_width = max((len(command.name) for command in commands), default=0) + COLUMN_GAP
    key_width = max((len(_keys_of(command)) for command in commands), default=0) + COLUMN_GAP
    key_width = min(key_width, max(width - name_width - LEAST_HELP, COLUMN_GAP))
    lines: list[Line] = []
    for section in sections:
        lines.append((Piece(section.heading, "accent", bold=True),))
        lines += [(Piece(line),) for line in textwrap.wrap(section.about, width)]
        lines.append(())
        for offer in section.commands:
            lines += _command_lines(offer, key_width, name_width, width - key_width - name_width)
        lines.append(())
    return lines


def _keys_of(command: Command) -> str:
    return all_key_labels(command.keys) if command.keys else shown_key("palette.open", "ctrl+p")


def _command_lines(offer: CommandState, key_width: int, name_width: int, help_width: int) -> Iterator[Line]:
    """The keys, the name, and what the command does, each wrapped in its own column."""
    loud, plain = ("muted", "muted") if offer.reason else ("accent", "text")
    keys = textwrap.wrap(_keys_of(offer.command), key_width - COLUMN_GAP)
    helps = [Piece(line, "muted") for line in textwrap.wrap(offer.command.help, help_width)]
    helps += [Piece(line, "warning") for line in textwrap.wrap(offer.reason, help_width)]
    for key, name, about in itertools.zip_longest(keys, [offer.command.name], helps):
        first, second = Piece(f"{key or '':<{key_width}}", loud, bold=True), Piece(f"{name or '':<{name_width}}", plain)
        yield (first, second, about or Piece(""))
