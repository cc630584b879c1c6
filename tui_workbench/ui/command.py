"""What a command is; `tui_workbench.ui.registry` is the registry of all of them.

The invariant: the keys of a command are those that the user has chosen for it, else its own, wherever they are shown or
bound. So the user's keymap must be known (`use_keys`) before the first screen is imported.
"""

from __future__ import annotations

from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.ui.key_names import key_label

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.binding import Binding, BindingType

_chosen: dict[str, str] = {}


def use_keys(keys: Mapping[str, str]) -> None:
    """Have these commands, by their ids, these keys from now on instead of their own."""
    _chosen.clear()
    _chosen.update(keys)


class Command(NamedTuple):
    """One thing a person can do. `id` is `scope.verb`, and names the command in a keymap.

    `default_keys` are comma-separated names of keys, an empty string for a command that only the palette has.
    """

    id: str
    default_keys: str
    action: str
    name: str
    help: str
    footer: bool = True
    priority: bool = False

    @property
    def keys(self) -> str:
        """The comma-separated keys that it has for this user."""
        return _chosen.get(self.id, self.default_keys)

    @property
    def binding(self) -> Binding:
        """The command as Textual knows it."""
        from textual.binding import Binding

        return Binding(
            self.keys,
            self.action,
            self.name,
            show=self.footer,
            priority=self.priority,
            tooltip=self.help,
            id=self.id,
        )


def shown_key(command_id: str, default: str) -> str:
    """The key that a sentence names for a command: the user's own, else `default`, as people know them."""
    keys = _chosen.get(command_id)
    if keys is None:
        return default
    return key_label(keys) if keys else f"{shown_key('palette.open', 'ctrl+p')} {command_id}"


def bindings(*scopes: tuple[Command, ...]) -> list[BindingType]:
    """What a widget that offers the commands of these scopes declares as its `BINDINGS`."""
    return [command.binding for scope in scopes for command in scope if command.keys]
