"""The user's keymap, `keys.yaml` in the configuration folder, which sets the keys of commands by their IDs.

    run.start: f5, ctrl+r
    files.run: [s, "!"]
    view.zoom: ""            # only in the palette

An invalid entry is ignored and reported with its line; the other entries are used. If the file is not valid YAML, no
entry is used. No key gets two meanings in one scope.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tui_workbench.core import directories
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.files import read_file
from tui_workbench.ui import user_yaml
from tui_workbench.ui.commands.command import KEY_LABELS, Scope, character_key, key_label
from tui_workbench.ui.commands.registry import COMMANDS, SCOPE_OF, SCOPES, TYPED_SCOPES

if TYPE_CHECKING:
    import yaml

MODIFIERS = ("ctrl", "alt", "shift", "super", "meta", "hyper")
"""The modifier keys, in the order in which Textual names them."""

NAMED_KEYS = frozenset({
    "escape", "enter", "tab", "space", "backspace", "insert", "delete", "home", "end", "pageup", "pagedown",
    "up", "down", "left", "right", *(f"f{number}" for number in range(1, 25)),
})  # fmt: skip

_OTHER_NAMES = dict(
    esc="escape", pgup="pageup", pgdn="pagedown", page_up="pageup", page_down="pagedown", ins="insert",
    control="ctrl", option="alt", cmd="super", **{"return": "enter", "del": "delete"}
)  # fmt: skip

_SENT_AS = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+left_square_bracket": "escape"}
"""Keys for which terminals send the bytes of another key, each with that key."""


class Entry(NamedTuple):
    """The keys of one command in the file; line and column count from 1."""

    id: str
    keys: tuple[str, ...]
    path: str
    line: int
    column: int

    def error(self, message: str, remedy: str) -> ConfigurationError:
        return ConfigurationError(message, file=self.path, line=self.line, column=self.column, remedy=remedy)


class Keymap(NamedTuple):
    """The valid keys of each command (comma-separated, by command ID), and the errors of the invalid entries."""

    path: str
    keys: Mapping[str, str]
    errors: tuple[ConfigurationError, ...] = ()


def load_keymap() -> Keymap:
    """Load the user's keymap; a missing file gives an empty keymap. Errors are returned in the keymap, not raised."""
    path = directories.keymap_path()
    try:
        text = read_file(path).decode("utf-8-sig")
    except FileNotFoundError:
        return Keymap(path, {})
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        return Keymap(path, {}, (ConfigurationError(f"cannot read the keymap: {reason}", remedy=_READABLE, file=path),))
    return read_keymap(text, path)


def read_keymap(text: str, path: str) -> Keymap:
    """Read the keymap from the text of its file."""
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
    """Return Textual's name of a key in the user's spelling (`?`, `Esc`, `ctrl+R`, `page_up`); "" if unknown."""
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
        # Terminals do not send capital letters with ctrl or alt.
        base = character_key(base.lower() if modifiers else base)
    else:
        base = _OTHER_NAMES.get(base.lower(), base.lower())
        if base not in NAMED_KEYS and base not in KEY_LABELS:
            return ""
    return "+".join([*sorted(modifiers, key=MODIFIERS.index), base]) if base else ""


def _entries(text: str, path: str) -> tuple[list[Entry], list[ConfigurationError]]:
    """Return the well-formed entries of the file in order, and the errors of the others.

    Raises ConfigurationError when the file as a whole is invalid.
    """
    import yaml

    root = user_yaml.compose(text, path, _QUOTES)
    if root is None:
        return [], []
    if not isinstance(root, yaml.MappingNode):
        raise ConfigurationError("expected lines of `command: key`", file=path, line=1, remedy=_LIST)
    entries: dict[str, Entry] = {}
    errors = []
    for key_node, node in root.value:
        named = _entry(str(key_node.value), (), path, key_node)
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if named.id in entries:
            message = f"{named.id} already has keys on line {entries[named.id].line}"
            errors.append(named.error(message, "Remove one of the two lines."))
        elif not all(isinstance(part, yaml.ScalarNode) for part in parts):
            errors.append(named.error(f"expected a key or a list of keys for {named.id}", _KEYS))
        else:
            entries[named.id] = _entry(named.id, _listed([str(part.value) for part in parts]), path, node)
    return list(entries.values()), errors


def _entry(name: str, keys: tuple[str, ...], path: str, node: yaml.Node) -> Entry:
    return Entry(name, keys, path, node.start_mark.line + 1, node.start_mark.column + 1)


def _listed(values: Sequence[str]) -> tuple[str, ...]:
    """Return the keys of a list, or of a comma-separated value."""
    if len(values) == 1 and values[0].strip() != ",":
        values = values[0].split(",")
    return tuple(value if value == " " else value.strip() for value in values if value.strip() or value == " ")


def _checked(entry: Entry) -> Entry:
    """Return the entry with Textual's names for its keys. Raises ConfigurationError for an unknown command or key."""
    command = COMMANDS.get(entry.id)
    if command is None:
        raise entry.error(f"unknown command {entry.id!r}", user_yaml.did_you_mean(entry.id, COMMANDS) or _LIST)
    keys = []
    for written in entry.keys:
        name = key_name(written)
        if not name:
            raise entry.error(f"unknown key {written!r}", 'Write keys as f5, ctrl+r, alt+up, space or "?".')
        if name in _SENT_AS:
            raise entry.error(f"terminals send {written} as {_SENT_AS[name]}", f"Choose another key for {entry.id}.")
        is_text = name == "space" or ("+" not in name and name not in NAMED_KEYS)
        if is_text and (command.priority or SCOPE_OF[entry.id] in TYPED_SCOPES):
            raise entry.error(
                f"{written!r} cannot be the key of {entry.id}, which works while you type text",
                "Choose a key with ctrl or alt, or a function key.",
            )
        keys.append(name)
    return entry._replace(keys=tuple(dict.fromkeys(keys)))


def _drop_clashes(usable: dict[str, Entry]) -> list[ConfigurationError]:
    """Remove the entries that give a key to a second command of a scope. Return their errors."""
    errors = []
    for scope in SCOPES.values():
        while clash := _clash(scope, usable):
            entry, other, key = clash
            message = f"{key_label(key)} is already the key of {other} in the same pane or dialog"
            errors.append(entry.error(message, f"Choose another key for {entry.id} or for {other}."))
            del usable[entry.id]
    return errors


def _clash(scope: Scope, usable: Mapping[str, Entry]) -> tuple[Entry, str, str] | None:
    """Return the last entry with a key of another command of the scope, that command, and the key; or None."""
    owners: dict[str, str] = {}
    clashes: list[tuple[Entry, str, str]] = []
    for command in scope:
        own = usable[command.id].keys if command.id in usable else command.default_keys.split(",")
        for key in filter(None, own):
            other = owners.setdefault(key, command.id)
            if other != command.id:
                entries = [usable[name] for name in (other, command.id) if name in usable]
                entry = max(entries, key=lambda candidate: candidate.line)
                clashes.append((entry, command.id if entry.id == other else other, key))
    return max(clashes, key=lambda clash: clash[0].line, default=None)


_LIST = "Write lines such as `run.start: ctrl+r`. `workbench-tui keys` lists all commands."
_READABLE = "Save the keymap as a readable file of UTF-8 text."
_QUOTES = 'Write lines such as `view.zoom: "?"`, and quote characters with a special meaning in YAML.'
_KEYS = 'Write a list such as `files.run: [s, "!"]`, and quote characters with a special meaning in YAML.'
