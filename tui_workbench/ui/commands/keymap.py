"""The user's keymap, `keys.yaml` in the configuration folder: other keys for commands, by their ids.

    run.start: f5, ctrl+r
    files.run: [s, "!"]
    view.zoom: ""            # only in the palette

The invariants: what is wrong with one entry costs only that entry, and is told with its line; a key that is not moved
away on purpose never comes to mean two things in one scope.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tui_workbench.core import directories
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.ui.commands.command import KEY_LABELS, Scope, character_key, key_label
from tui_workbench.ui.commands.registry import COMMANDS, SCOPE_OF, SCOPES, TYPED_SCOPES

if TYPE_CHECKING:
    import yaml

MODIFIERS = ("ctrl", "alt", "shift", "super", "meta", "hyper")
"""In the order in which Textual names them."""

NAMED_KEYS = frozenset({
    "escape", "enter", "tab", "space", "backspace", "insert", "delete", "home", "end", "pageup", "pagedown",
    "up", "down", "left", "right", *(f"f{number}" for number in range(1, 25)),
})  # fmt: skip

_OTHER_NAMES = dict(
    esc="escape", pgup="pageup", pgdn="pagedown", page_up="pageup", page_down="pagedown", ins="insert",
    control="ctrl", option="alt", cmd="super", **{"return": "enter", "del": "delete"}
)  # fmt: skip

_SENT_AS = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+left_square_bracket": "escape"}
"""Keys that a terminal cannot tell from others."""


class Entry(NamedTuple):
    """What the file says of one command, and where; lines and columns count from 1."""

    id: str
    keys: tuple[str, ...]
    path: str
    line: int
    column: int

    def error(self, message: str, remedy: str) -> ConfigurationError:
        """What is wrong with it."""
        return ConfigurationError(message, file=self.path, line=self.line, column=self.column, remedy=remedy)


class Keymap(NamedTuple):
    """The comma-separated keys by command id, as far as they can be used, and what is wrong with the rest."""

    path: str
    keys: Mapping[str, str]
    errors: tuple[ConfigurationError, ...] = ()


def load_keymap() -> Keymap:
    """The user's keymap; an empty one where there is no file. What is wrong stands in it, nothing is raised."""
    path = directories.keymap_path()
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except FileNotFoundError:
        return Keymap(path, {})
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        return Keymap(path, {}, (ConfigurationError(f"the keymap cannot be read: {reason}", file=path),))
    return read_keymap(text, path)


def read_keymap(text: str, path: str) -> Keymap:
    """The keymap that a file's text holds."""
    try:
        entries, errors = _entries(text, path)
    except ConfigurationError as error:
        return Keymap(path, {}, (error,))
    usable: dict[str, Entry] = {}
    for entry in entries:
        try:
            usable[entry.id] = _checked(entry)
        except ConfigurationError as error:
            errors.append(error)
    errors += _drop_clashes(usable)
    errors.sort(key=lambda error: (error.line, error.column))
    return Keymap(path, {entry.id: ",".join(entry.keys) for entry in usable.values()}, tuple(errors))


def key_name(written: str) -> str:
    """Textual's name of a key that a person wrote (`?`, `Esc`, `ctrl+R`, `page_up`); an empty string if it is none."""
    if len(written) == 1:
        return character_key(written)
    base, modifiers = written, []
    while "+" in base[:-1]:
        modifier, _, base = base.partition("+")
        modifier = _OTHER_NAMES.get(modifier.strip().lower(), modifier.strip().lower())
        if modifier not in MODIFIERS or modifier in modifiers:
            return ""
        modifiers.append(modifier)
    base = base.strip()
    if len(base) == 1:
        # With ctrl or alt a terminal sends no capital: the shift has a name of its own.
        base = character_key(base.lower() if modifiers else base)
    else:
        base = _OTHER_NAMES.get(base.lower(), base.lower())
        if base not in NAMED_KEYS and base not in KEY_LABELS:
            return ""
    return "+".join([*sorted(modifiers, key=MODIFIERS.index), base]) if base else ""


def _entries(text: str, path: str) -> tuple[list[Entry], list[ConfigurationError]]:
    """What the file says, in its order. Raises ConfigurationError when it says nothing that can be understood."""
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise ConfigurationError(
            f"this is no YAML: {error.problem}", file=path, line=line, column=column, remedy=_QUOTES
        ) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigurationError(f"this is no YAML: {str(error).splitlines()[0]}", file=path) from error
    if root is None:
        return [], []
    if not isinstance(root, yaml.MappingNode):
        raise ConfigurationError("a keymap is a list of `command: key` lines", file=path, line=1, remedy=_LIST)
    entries: dict[str, Entry] = {}
    errors = []
    for key_node, node in root.value:
        named = _entry(str(key_node.value), (), path, key_node)
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if named.id in entries:
            said = f"{named.id} has keys in line {entries[named.id].line} already"
            errors.append(named.error(said, "Remove one line."))
        elif not all(isinstance(part, yaml.ScalarNode) for part in parts):
            errors.append(named.error(f"the keys of {named.id} are no list of keys", _QUOTES))
        else:
            entries[named.id] = _entry(named.id, _listed([str(part.value) for part in parts]), path, node)
    return list(entries.values()), errors


def _entry(name: str, keys: tuple[str, ...], path: str, node: yaml.Node) -> Entry:
    return Entry(name, keys, path, node.start_mark.line + 1, node.start_mark.column + 1)


def _listed(values: Sequence[str]) -> tuple[str, ...]:
    """The keys as they are written: those of a list one by one, those of a line between its commas."""
    if len(values) == 1 and values[0].strip() != ",":
        values = values[0].split(",")
    return tuple(value if value == " " else value.strip() for value in values if value.strip() or value == " ")


def _checked(entry: Entry) -> Entry:
    """The entry with the names that Textual has for its keys. Raises ConfigurationError."""
    command = COMMANDS.get(entry.id)
    if command is None:
        raise entry.error(f"there is no command {entry.id!r}", _nearest(entry.id, COMMANDS) or _LIST)
    keys = []
    for written in entry.keys:
        name = key_name(written)
        if not name:
            raise entry.error(f"{written!r} is no key", 'Keys are written as in f5, ctrl+r, alt+up, space, "?".')
        if name in _SENT_AS:
            raise entry.error(f"a terminal sends {_SENT_AS[name]} for {written}", "Choose another key.")
        if _is_text(name) and (command.priority or SCOPE_OF[entry.id] in TYPED_SCOPES):
            raise entry.error(f"{written!r} is text where {entry.id} works", "Take one with ctrl or alt, or an F key.")
        keys.append(name)
    return entry._replace(keys=tuple(dict.fromkeys(keys)))


def _is_text(name: str) -> bool:
    return name == "space" or ("+" not in name and name not in NAMED_KEYS)


def _drop_clashes(usable: dict[str, Entry]) -> list[ConfigurationError]:
    """Leave out the entries that give a key to a second command of its scope, and say so."""
    errors = []
    for scope in SCOPES.values():
        while clash := _clash(scope, usable):
            entry, other, key = clash
            said = f"{key_label(key)} is the key of {other} in the same place"
            errors.append(entry.error(said, f"Give {other} another key, too, or {entry.id} one that is free."))
            del usable[entry.id]
    return errors


def _clash(scope: Scope, usable: Mapping[str, Entry]) -> tuple[Entry, str, str] | None:
    """An entry whose key another command of the scope has, that command, and the key. The later entry gives way."""
    owners: dict[str, str] = {}
    found: list[tuple[Entry, str, str]] = []
    for command in scope:
        own = usable[command.id].keys if command.id in usable else command.default_keys.split(",")
        for key in filter(None, own):
            other = owners.setdefault(key, command.id)
            if other != command.id:
                entry = max((usable[name] for name in (other, command.id) if name in usable), key=lambda one: one.line)
                found.append((entry, command.id if entry.id == other else other, key))
    return max(found, key=lambda clash: clash[0].line, default=None)


def _nearest(name: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"Did you mean {close[0]}?" if close else ""


_LIST = "`workbench-tui keys` lists all commands."
_QUOTES = 'Put signs that YAML knows in quotes, as in view.zoom: "?".'
