"""The commands of the widgets on a screen, and the reason why a command is unavailable now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from textual.dom import DOMNode
from textual.screen import Screen

from tui_workbench.ui.commands.command import Command
from tui_workbench.ui.terminal.textual_internals import binding_chain, bindings_of


class ExplainsUnavailable:
    """A mixin for widgets whose `why_not` decides whether a command is available. Name it before the widget class."""

    def why_not(self, action: str) -> str:
        """Return the reason why an action is unavailable now, or ""."""
        return ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return not self.why_not(action)


class CommandState(NamedTuple):
    """A command of a widget on the screen; `reason` is empty when the command is available."""

    command: Command
    node: DOMNode
    reason: str


def command_states(node: DOMNode) -> list[CommandState]:
    """Return the named commands of a widget with their states. Merge commands of the same name and action."""
    states: dict[tuple[str, str], CommandState] = {}
    for command in _declared(node):
        if not command.name:
            continue
        key = (command.action, command.name)
        if key in states:
            joined = f"{states[key].command.keys},{command.keys}"
            states[key] = states[key]._replace(command=states[key].command._replace(default_keys=joined))
        else:
            states[key] = CommandState(command, node, unavailable_reason(node, command.action))
    return list(states.values())


_NAVIGATION = frozenset({"list", "table", "text_editor", "field_text", "search_field"})
"""First parts of the IDs of commands that move a cursor or edit text. The palette omits these commands."""

_LISTED_ANYWAY = frozenset({"list.filter", "text_editor.comment", "text_editor.undo", "text_editor.redo"})

_PALETTES = frozenset({"palette.open", "history.palette"})


def is_in_palette(command: Command) -> bool:
    """Return True if the palette lists the command."""
    if command.id in _PALETTES or not command.help:
        return False
    return command.id in _LISTED_ANYWAY or command.id.partition(".")[0] not in _NAVIGATION


def without_duplicates(states: Iterable[CommandState]) -> list[CommandState]:
    """Return the first available state of each command, or its first state if none is available, in order."""
    kept: dict[str, CommandState] = {}
    for state in states:
        identity = state.command.id or f"{state.command.action} {state.command.name}"
        if identity not in kept or (kept[identity].reason and not state.reason):
            kept[identity] = state
    return list(kept.values())


def is_ours(node: DOMNode) -> bool:
    """Return True for a widget of this package, not of Textual."""
    return type(node).__module__.partition(".")[0] == __name__.partition(".")[0]


def unavailable_reason(node: DOMNode, action: str) -> str:
    """Return the reason why the action is unavailable in the widget now, or ""."""
    name = action.partition("(")[0]
    if isinstance(node, ExplainsUnavailable) and (reason := node.why_not(name)):
        return reason
    return "" if node.check_action(name, ()) else "Not available here now."


def why_refused(screen: Screen[Any], key: str) -> str:
    """Return the name of a key's command and the reason why the command is unavailable now.

    Return "" if the command is available, if the key has no command, and for escape. If the key has several unavailable
    commands, use that of the outermost widget, because inner widgets such as a filter are temporary.
    """
    refusal = ""
    for node, bound in binding_chain(screen):
        for binding in bound.key_to_bindings.get(key, ()):
            if binding.description and key != "escape" and (reason := unavailable_reason(node, binding.action)):
                refusal = f"{binding.description}: {reason}"
    return refusal


def _declared(node: DOMNode) -> Iterable[Command]:
    """Return the `DECLARED_COMMANDS` of a widget if it has any, else the commands of its bindings."""
    if declared := getattr(node, "DECLARED_COMMANDS", ()):
        yield from declared
        return
    for listed in bindings_of(node).values():
        for binding in listed:
            name = binding.description
            yield Command(
                binding.id or "", binding.key, binding.action, name, binding.tooltip, binding.show, binding.priority
            )
