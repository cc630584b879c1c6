"""Commands, scopes, and key names as users and as Textual write them.

Keys of the user's keymap replace the default keys wherever keys are shown or bound. Therefore `use_keys` must be called
before the first screen is imported.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from textual.binding import Binding, BindingType

_chosen: dict[str, str] = {}


def use_keys(keys: Mapping[str, str]) -> None:
    """Set the user's keys, which replace default keys; `keys` maps command IDs to comma-separated keys."""
    _chosen.clear()
    _chosen.update(keys)


class Command(NamedTuple):
    """A command of a widget. `id`, such as `run.start`, names the command in a keymap.

    `default_keys` is a comma-separated list of key names, or "" for a command that is only in the palette.
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
        return _chosen.get(self.id, self.default_keys)

    @property
    def summary(self) -> str:
        """The first sentence of the help, without its period."""
        return self.help.partition(". ")[0].removesuffix(".")

    @property
    def binding(self) -> Binding:
        from textual.binding import Binding

        return Binding(
            self.keys, self.action, self.name, self.footer, priority=self.priority, tooltip=self.help, id=self.id
        )


def quiet(id: str, default_keys: str, action: str, name: str, help: str, *, priority: bool = False) -> Command:
    """Return a command that the footer does not show."""
    return Command(id, default_keys, action, name, help, footer=False, priority=priority)


class Scope:
    """The commands of a widget. `title` and `about` name the screens or widgets in which the commands work."""

    def __init__(self, name: str, title: str, commands: tuple[Command, ...], about: str = "") -> None:
        self.name = name
        self.title = title
        self.commands = commands
        self.about = about

    def __iter__(self) -> Iterator[Command]:
        return iter(self.commands)

    @property
    def bindings(self) -> list[BindingType]:
        return bindings(self)


def bindings(commands: Iterable[Command]) -> list[BindingType]:
    """Return the `BINDINGS` of a widget that has these commands."""
    return [command.binding for command in commands if command.keys]


# --- Labels of keys: `?`, `esc`, `ctrl+r`

_CHARACTER_NAMES = {
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}
"""Unicode names that differ from Textual's names, each with Textual's name."""


def character_key(character: str) -> str:
    """Return Textual's name for the key of a character."""
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
    """Return the label of the first of the comma-separated keys: `?`, `esc`, `ctrl+r`."""
    *modifiers, key = keys.split(",")[0].split("+")
    return "+".join([*modifiers, KEY_LABELS.get(key, key)])


def all_key_labels(keys: str) -> str:
    """Return the labels of all comma-separated keys: `↑ k`."""
    return " ".join(dict.fromkeys(key_label(key) for key in keys.split(",")))


def shown_key(command_id: str, default: str) -> str:
    """Return the label of a command's key in the user's keymap, or `default` if the keymap does not name the command.

    If the keymap gives the command no key, return the key of the palette and the ID of the command.
    """
    keys = _chosen.get(command_id)
    if keys is None:
        return default
    return key_label(keys) if keys else f"{shown_key('palette.open', 'ctrl+p')} {command_id}"
