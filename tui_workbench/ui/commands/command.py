"""What a command is, and its keys as people and Textual know them.

The invariant: the keys of a command are those that the user has chosen for it, else its own, wherever they are shown or
bound. So the user's keymap must be known (`use_keys`) before the first screen is imported.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
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
            self.keys, self.action, self.name, self.footer, priority=self.priority, tooltip=self.help, id=self.id
        )


def quiet(id: str, default_keys: str, action: str, name: str, help: str, *, priority: bool = False) -> Command:
    """A command that the footer does not show."""
    return Command(id, default_keys, action, name, help, footer=False, priority=priority)


@dataclass(frozen=True)
class Scope:
    """The commands of a widget. `name` is for programs and keymaps, `title` and `about` say where the scope is."""

    name: str
    title: str
    commands: tuple[Command, ...]
    about: str = ""

    def __iter__(self) -> Iterator[Command]:
        return iter(self.commands)

    @property
    def bindings(self) -> list[BindingType]:
        """The `BINDINGS` of a widget that offers these commands."""
        return bindings(self)


def bindings(commands: Iterable[Command]) -> list[BindingType]:
    """The `BINDINGS` of a widget that offers these commands."""
    return [command.binding for command in commands if command.keys]


# --- Keys as people know them: `?`, `esc`, `ctrl+r`

_CHARACTER_NAMES = {
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}
"""Where Textual does not use the name that Unicode gives a character."""


def character_key(character: str) -> str:
    """Textual's name of the key of a character."""
    if character == " ":
        return "space"
    if character.isalnum():
        return character
    name = unicodedata.name(character, "").lower().replace("-", "_").replace(" ", "_")
    return _CHARACTER_NAMES.get(name, name)


KEY_LABELS = {
    "escape": "esc", "pageup": "pgup", "pagedown": "pgdn", "up": "↑", "down": "↓", "left": "←", "right": "→",
    **{character_key(character): character for character in "?/[]!:.,+-\\#=;'\"@*&%$<>_~`|^(){}"},
}  # fmt: skip


def key_label(keys: str) -> str:
    """The first of the comma-separated keys as a person knows it: `?`, `esc`, `ctrl+r`."""
    *modifiers, key = keys.split(",")[0].split("+")
    return "+".join([*modifiers, KEY_LABELS.get(key, key)])


def all_key_labels(keys: str) -> str:
    """Every key of the command, as `↑ k`."""
    return " ".join(dict.fromkeys(key_label(key) for key in keys.split(",")))


def shown_key(command_id: str, default: str) -> str:
    """The key that a sentence names for a command: the user's own, else `default`, as people know them."""
    keys = _chosen.get(command_id)
    if keys is None:
        return default
    return key_label(keys) if keys else f"{shown_key('palette.open', 'ctrl+p')} {command_id}"
