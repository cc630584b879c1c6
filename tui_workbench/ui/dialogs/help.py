"""The `?` screen: the focused pane and its keys, then the keys that work everywhere.

An unavailable command is shown with the reason.
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
from tui_workbench.ui.widgets.dialog import DialogScreen
from tui_workbench.ui.widgets.pane import Pane
from tui_workbench.ui.widgets.pieces import Piece
from tui_workbench.ui.widgets.text_view import Line, TextView

COLUMN_GAP = 2
MIN_HELP_WIDTH = 30


class Section(NamedTuple):
    """The part of the help about a widget."""

    heading: str
    about: str
    commands: list[CommandState]


class HelpScreen(DialogScreen[None], inherit_bindings=False):
    """The screen that shows sections of help."""

    BINDINGS = HELP.bindings
    DEFAULT_CSS = "HelpScreen > TextView.-fitted { width: 96; padding: 0 2; }"

    def __init__(self, sections: list[Section]) -> None:
        self._text = TextView(make=partial(help_lines, sections))
        super().__init__(self._text)
        self._text.can_focus = False
        self._text.border_title = Content("Help")
        self._text.border_subtitle = Content(f"{shown_key('help.close', 'esc')} close")

    def action_close(self) -> None:
        self.dismiss(None)

    def action_scroll(self, pages: float) -> None:
        self._text.action_scroll(pages)

    def action_end(self, last: bool) -> None:
        self._text.action_end(last)


def help_sections(screen: Screen[Any]) -> list[Section]:
    """Return a section for the focused widget and each widget around it that has commands, up to the app.

    Without a focused widget, return only the section of the screen.
    """
    nodes = list(screen.focused.ancestors_with_self) if screen.focused is not None else [screen]
    # The purpose of a pane comes before the keys of the list in it.
    nodes.sort(key=lambda node: not getattr(node, "about", ""))
    sections = []
    for node in nodes:
        commands = [state for state in command_states(node) if state.command.help]
        if commands and is_ours(node):
            sections.append(Section(_heading(node), getattr(node, "about", ""), commands))
    return sections


def _heading(node: DOMNode) -> str:
    if isinstance(node, Pane):
        return f"{node.number} {node.title}"
    default = "Everywhere" if isinstance(node, Screen) else "On every screen" if isinstance(node, App) else "Here"
    return getattr(node, "heading", "") or default


def help_lines(sections: Sequence[Section], width: int) -> list[Line]:
    """Format sections as a table of keys, names and descriptions. Long keys and descriptions are wrapped."""
    commands = [state.command for section in sections for state in section.commands]
    name_width = max((len(command.name) for command in commands), default=0) + COLUMN_GAP
    key_width = max((len(_keys_of(command)) for command in commands), default=0) + COLUMN_GAP
    key_width = min(key_width, max(width - name_width - MIN_HELP_WIDTH, COLUMN_GAP))
    lines: list[Line] = []
    for section in sections:
        lines.append((Piece(section.heading, "accent", bold=True),))
        lines += [(Piece(line),) for line in textwrap.wrap(section.about, width)]
        lines.append(())
        for state in section.commands:
            lines += _command_lines(state, key_width, name_width, width - key_width - name_width)
        lines.append(())
    return lines


def _keys_of(command: Command) -> str:
    return all_key_labels(command.keys) if command.keys else shown_key("palette.open", "ctrl+p")


def _command_lines(state: CommandState, key_width: int, name_width: int, help_width: int) -> Iterator[Line]:
    loud, plain = ("muted", "muted") if state.reason else ("accent", "text")
    keys = textwrap.wrap(_keys_of(state.command), key_width - COLUMN_GAP)
    helps = [Piece(line, "muted") for line in textwrap.wrap(state.command.help, help_width)]
    helps += [Piece(line, "warning") for line in textwrap.wrap(state.reason, help_width)]
    for key, name, about in itertools.zip_longest(keys, [state.command.name], helps):
        first, second = Piece(f"{key or '':<{key_width}}", loud, bold=True), Piece(f"{name or '':<{name_width}}", plain)
        yield (first, second, about or Piece(""))
