"""What the widgets of a screen offer now: commands of the registry, each with the reason when it is not available."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol, runtime_checkable

from textual.dom import DOMNode
from textual.screen import Screen

from tui_workbench.ui.commands.command import Command
from tui_workbench.ui.terminal.textual_internals import binding_chain, bindings_of


@runtime_checkable
class ExplainsUnavailable(Protocol):
    """A widget that tells why a command of its own is not available: a sentence, "" when it is."""

    def why_not(self, action: str) -> str: ...


class CommandState(NamedTuple):
    """A command as a widget on the screen offers it now: `reason` is empty when it is available."""

    command: Command
    node: DOMNode
    reason: str


def command_states(node: DOMNode) -> list[CommandState]:
    """What a widget of ours offers: the commands of its scopes, or its own bindings that have a description."""
    found: dict[tuple[str, str], CommandState] = {}
    for command in _declared(node):
        if not command.name:
            continue
        key = (command.action, command.name)
        if key in found:
            joined = f"{found[key].command.keys},{command.keys}"
            found[key] = found[key]._replace(command=found[key].command._replace(default_keys=joined))
        else:
            found[key] = CommandState(command, node, unavailable_reason(node, command.action))
    return list(found.values())


_MOVING = frozenset({"list", "table", "text_editor", "field_text", "search_field"})
"""Scopes by which one moves in lists and texts: nobody looks for that by name."""

_LOOKED_FOR = frozenset({"list.filter", "text_editor.comment", "text_editor.undo", "text_editor.redo"})

_PALETTES = frozenset({"palette.open", "history.palette"})


def is_in_palette(command: Command) -> bool:
    """Whether the palette has the command."""
    if command.id in _PALETTES or not command.help:
        return False
    return command.id in _LOOKED_FOR or command.id.partition(".")[0] not in _MOVING


def without_duplicates(found: Iterable[CommandState]) -> list[CommandState]:
    """One offer for each command, in order: the first that is available, else the first."""
    offered: dict[str, CommandState] = {}
    for offer in found:
        identity = offer.command.id or f"{offer.command.action} {offer.command.name}"
        if identity not in offered or (offered[identity].reason and not offer.reason):
            offered[identity] = offer
    return list(offered.values())


def is_ours(node: DOMNode) -> bool:
    """True for a widget of this package; what Textual's own widgets can do is no command."""
    return type(node).__module__.partition(".")[0] == __name__.partition(".")[0]


def unavailable_reason(node: DOMNode, action: str) -> str:
    """Why the widget would refuse the action now; empty when it would not."""
    name = action.partition("(")[0]
    if isinstance(node, ExplainsUnavailable) and (reason := node.why_not(name)):
        return reason
    return "" if node.check_action(name, ()) else "Not available here now."


def why_refused(screen: Screen[Any], key: str) -> str:
    """Why a key that something is bound to does nothing now; empty when nothing is, or when it does something.

    Of several commands that have the key the outermost counts: what is within is a matter of a moment, as a filter.
    """
    found = ""
    for node, bound in binding_chain(screen):
        for binding in bound.key_to_bindings.get(key, ()):
            if binding.description and key != "escape" and (reason := unavailable_reason(node, binding.action)):
                found = f"{binding.description}: {reason}"
    return found


def _declared(node: DOMNode) -> Iterable[Command]:
    """The commands of a widget: `DECLARED_COMMANDS` where some have no key, else those of its bindings."""
    if declared := getattr(node, "DECLARED_COMMANDS", ()):
        yield from declared
        return
    for listed in bindings_of(node).values():
        for binding in listed:
            name = binding.description
            yield Command(
                binding.id or "", binding.key, binding.action, name, binding.tooltip, binding.show, binding.priority
            )
