"""Secrets of run configurations outside the project.

A reference, `AzureMlSecret=<project>#<variable>#<id>`, stands for the value of a variable. The value is in a file of
the user's state directory that only this user can read. It is not in the keyring, because the processes that start
queued runs, attempts and jobs may run without the session of the keyring. A value is used only for the variable and the
project that it was stored for, so that a received project cannot obtain it.

Snapshots contain references in place of secrets. The files of the project stay unchanged.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from tui_workbench.config.loading import top_level_keys
from tui_workbench.config.schema import fields
from tui_workbench.config.schema.fields import kind_of
from tui_workbench.config.yaml_edit.editing import set_value
from tui_workbench.config.yaml_edit.syntax import Path, parse, plain_value, read
from tui_workbench.core.directories import CONFIG_DIRECTORY, user_state_directory
from tui_workbench.core.errors import ConfigurationError, StorageError, storage_errors
from tui_workbench.core.files import load_json, read_below, unlink_below, write_below
from tui_workbench.core.masking import MASK, SHORTEST_SECRET, mask_text, mask_words, secret_values, secrets_of
from tui_workbench.core.secret_names import is_secret
from tui_workbench.core.text_files import TextFile

PREFIX = "AzureMlSecret="
RUN_CONFIGURATION_SUFFIX = ".runconfig"
FOLDER = "variables"  # in the user's state directory
_KEY = "key"  # a random key, so that an ID does not tell the value
_KEY_BYTES = 32
_ID_CHARACTERS = 32
_NUMBER = re.compile(rb"#([0-9a-f]{32})(?![0-9a-f])")
_ONLY_FOR_RUNS = "only_for_runs"  # in the file of a value
_PAIR = re.compile(r"""([\w.-]+)["']?\s*:\s*["']?([^\s"',:{}\[\]]*)""")
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)
_COMMENTED = re.compile(r"""(?<![\w.-])([\w.-]{1,100}["']?\s{0,9}[:=]\s{0,9})("[^"]*"|'[^']*'|[^\s"',{}\[\]]+)""")
_REFERENCE = re.compile(rf"{PREFIX}[^\s#]*#[^\s#]*#[0-9a-f]+")
_SEPARATORS = re.compile(r"""[\s,\[\]{}"']+""")


class Unreadable(StorageError):
    """A file may contain a secret that cannot be replaced, so that no snapshot can contain the file."""

    def __init__(self, path: str) -> None:
        remedy = "Correct the file: `workbench-tui config check` shows its errors."
        super().__init__("this file may contain a secret, and cannot be read", remedy=remedy, file=path)


def store_value(root: str, name: str, value: str, *, only_for_runs: bool = False) -> str:
    """Store the value of a variable of the project at `root`, and return its reference.

    The same value always has the same reference. With `only_for_runs`, `remove_unneeded` may remove the value, because
    a file of the project still contains it. Raises StorageError.
    """
    root = os.path.realpath(root)
    facts = "\0".join((root, name, value)).encode("utf-8", "surrogateescape")
    number = hmac.new(_key(), facts, hashlib.sha256).hexdigest()[:_ID_CHARACTERS]
    file = os.path.join(_folder(), number)
    with storage_errors("write", file):
        if not os.path.exists(file) or (not only_for_runs and _is_only_for_runs(number, root)):
            _write(number, root, name, value, only_for_runs=only_for_runs)
    return _reference(root, name, number)


def _write(number: str, root: str, name: str, value: str, *, only_for_runs: bool) -> None:
    stored = {"project": root, "variable": name, "value": value, _ONLY_FOR_RUNS: only_for_runs}
    write_below(_folder(), number, json.dumps(stored).encode(), durable=True)


def _is_only_for_runs(number: str, root: str) -> bool:
    """Return True if a value of the project was stored only for runs. Values of earlier versions are not marked."""
    stored = _stored(number)
    return stored is not None and stored["project"] == root and stored.get(_ONLY_FOR_RUNS) is True


def numbers_in(text: bytes) -> set[str]:
    """Return the IDs of the references in a text, and possibly similar words."""
    return {number.decode() for number in _NUMBER.findall(text)}


def keep_values(root: str, text: bytes) -> None:
    """Keep the values of all references in a text, which becomes a file of the project. Raises StorageError."""
    root = os.path.realpath(root)
    for number in numbers_in(text):
        if _is_only_for_runs(number, root) and (stored := _stored(number)) is not None:
            with storage_errors("write", os.path.join(_folder(), number)):
                _write(number, root, str(stored["variable"]), str(stored["value"]), only_for_runs=False)


def remove_unneeded(root: str, needed: Collection[str]) -> None:
    """Remove the values that were stored only for runs of the project, except those with the IDs `needed`.

    Values that `config fix` moved out of the project, or to which a restored file refers, stay. Raises OSError.
    """
    root = os.path.realpath(root)
    with contextlib.suppress(FileNotFoundError):
        for number in os.listdir(_folder()):
            if number not in needed and _is_only_for_runs(number, root):
                unlink_below(_folder(), number)


def _reference(root: str, name: str, number: str) -> str:
    parts = (re.sub(r"[^\w.-]", "-", part) for part in (os.path.basename(root), name))
    return f"{PREFIX}{'#'.join(parts)}#{number}"


def _sample_reference(root: str, name: str, _value: str) -> str:
    """Return a reference without a value, for checks that must not write."""
    return _reference(root, name, "0" * _ID_CHARACTERS)


def value_of(root: str, name: str, reference: str) -> str | None:
    """Return the value of a variable that is stored under a reference; None if there is none for this project."""
    stored = _stored(reference.rpartition("#")[2])
    is_for = stored is not None and stored["project"] == os.path.realpath(root) and stored["variable"] == name
    return str(stored["value"]) if stored is not None and is_for else None


def _stored(number: str) -> dict[str, Any] | None:
    """Return the project, the variable and the value that are stored under an ID; None if there are none."""
    if len(number) != _ID_CHARACTERS or not set(number) <= set("0123456789abcdef"):
        return None
    try:
        stored = load_json(os.path.join(_folder(), number))
    except (OSError, ValueError):
        return None
    is_complete = isinstance(stored, dict) and {"project", "variable", "value"} <= stored.keys()
    return stored if is_complete else None


def resolved(root: str, variables: Mapping[str, str], path: str = "") -> dict[str, str]:
    """Return variables with the values of references. `path` is the run configuration, for the error.

    Raises ConfigurationError for a reference without a value on this machine.
    """
    values = dict(variables)
    for name, value in variables.items():
        if value.startswith(PREFIX):
            stored = value_of(root, name, value)
            if stored is None:
                raise ConfigurationError(
                    f"the value of {name} is not stored on this machine for this project",
                    remedy=f"Set {name} in EnvironmentVariables to the value. "
                    "`workbench-tui config fix FILE` then stores it outside the project again.",
                    file=path,
                )
            values[name] = stored
    return values


def known_secrets(root: str, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of secret variables, also of those that are stored outside the project."""
    values = {
        name: value_of(root, name, value) if value.startswith(PREFIX) else value for name, value in variables.items()
    }
    return secret_values({name: value for name, value in values.items() if value is not None})


def is_run_configuration(path: str) -> bool:
    """Return True if a path, relative to the project, is that of a run configuration."""
    return path.endswith(RUN_CONFIGURATION_SUFFIX) and os.path.dirname(path) == CONFIG_DIRECTORY


def copy_for_snapshot(root: str, path: str, *, store: bool) -> bytes | None:
    """Return the content of a run configuration with references in place of secrets.

    `path` is relative to the project at `root`. Return None if the file is another file, or has no secrets. With
    `store`, the values are stored; otherwise, the references are only samples. Raises Unreadable, and StorageError if
    the values cannot be stored.
    """
    if not is_run_configuration(path):
        return None
    whole = os.path.join(root, path)
    try:
        file = read(whole)
    except ConfigurationError as error:
        if not os.path.lexists(whole):
            return None
        raise Unreadable(whole) from error
    return _with_references(root, file, partial(store_value, only_for_runs=True) if store else _sample_reference)


def _with_references(root: str, file: TextFile, refer: Callable[[str, str, str], str]) -> bytes | None:
    """Replace only the values. The file is not written, so a read-only file is possible."""
    text = file.text
    try:
        secrets = _secrets_in(text)
        for path, value in secrets.items():
            # The text is parsed again for each value, because an edit moves the positions of the others.
            tree = parse(text)
            kind = kind_of(file.path, top_level_keys(tree)) or fields.RUNCONFIG
            text = set_value(tree, path, refer(root, str(path[-1]), str(value)), kind)
        text = _without_values(text, [str(value) for value in secrets.values()])
        masked = _COMMENT.sub(lambda comment: _COMMENTED.sub(_masked_comment, comment[0]), text)
        if plain_value(parse(masked).root) != plain_value(parse(text).root):
            raise Unreadable(file.path)  # a value looks like a comment
    except ConfigurationError as error:
        if looks_secret(file.text):
            raise Unreadable(file.path) from error
        return None
    return file._replace(read_only="").encode(masked) if masked != file.text else None


def _masked_comment(match: re.Match[str]) -> str:
    """Mask the value in a comment if it is a secret, such as that of a variable that is commented out."""
    value = match[2].strip("'\"")
    return (
        f"{match[1]}{MASK}"
        if value and not value.startswith(PREFIX) and is_secret(match[1].rstrip("\"' \t:="), value)
        else match[0]
    )


def _secrets_in(text: str) -> dict[Path, Any]:
    """Return the secrets in the text of a run configuration by their paths. Raises ConfigurationError."""
    secrets = secrets_of(plain_value(parse(text).root))
    return {path: value for path, value in secrets.items() if value and not str(value).startswith(PREFIX)}


def _without_values(text: str, values: list[str]) -> str:
    """Mask the values where they remain, such as in comments and anchors."""
    for value in sorted(values, key=len, reverse=True):  # a value can be a part of a longer one
        if len(value) >= SHORTEST_SECRET:
            text = text.replace(value, MASK)
    return text


def looks_secret(text: str) -> bool:
    """Return True if YAML, which may be invalid, may contain a secret. A false positive is better than a miss."""
    text = _REFERENCE.sub("null", text)
    pairs = (is_secret(match[1], match[2] or "?") for match in _PAIR.finditer(text))
    words = [word for word in _SEPARATORS.split(text) if word]
    return any(pairs) or mask_text(text) != text or mask_words(words) != words


def _folder() -> str:
    return os.path.join(user_state_directory(), FOLDER)


def _key() -> bytes:
    """Return the random key of this user, which is created if it does not exist. Raises StorageError."""
    folder = _folder()
    with storage_errors("write", folder):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        # Of processes that create the key at the same time, one succeeds, and all read its key.
        with contextlib.suppress(FileExistsError):
            write_below(folder, _KEY, os.urandom(_KEY_BYTES), durable=True, exclusive=True)
        key = read_below(folder, _KEY, _KEY_BYTES + 1)
    if len(key) != _KEY_BYTES:
        raise StorageError("the key is damaged", remedy="Remove the file.", file=os.path.join(folder, _KEY))
    return key
