"""What a project looked like when it was left: panes, sizes, open files, cursor, filters; one small file a project.

The invariants: reading never fails for good (a file that is broken, or of a later program, counts as none and is told
of), and what was read may be anything: every value is asked for by its type, and one that is not of it is not there.
The file is the user's and not the project's: it lies in the user's state directory.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from typing import Any

from tui_workbench.core import directories
from tui_workbench.core.errors import StorageError, WorkbenchError
from tui_workbench.core.files import write_atomically

SCHEMA = 1
"""Of the file; a higher number was written by a later program."""

LARGEST = 1 << 20
"""Bytes; a file that is larger was not written by us."""


class Values:
    """A part of what was saved: names with plain values of JSON."""

    def __init__(self, values: object = None) -> None:
        self._values: Mapping[str, Any] = values if isinstance(values, Mapping) else {}

    def part(self, name: str) -> Values:
        """The part of this name; without values when there is none."""
        return Values(self._values.get(name))

    def text(self, name: str) -> str:
        """A text, "" when there is none."""
        value = self._values.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> int:
        """A whole number that is not negative, 0 when there is none."""
        value = self._values.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0

    def flag(self, name: str) -> bool:
        """Whether it is said to be so."""
        return self._values.get(name) is True

    def texts(self, name: str) -> tuple[str, ...]:
        """The texts of a list; what is none is left out."""
        return tuple(value for value in self._list(name) if isinstance(value, str))

    def parts(self, name: str) -> tuple[Values, ...]:
        """The parts of a list."""
        return tuple(Values(value) for value in self._list(name))

    def _list(self, name: str) -> list[object]:
        value = self._values.get(name)
        return value if isinstance(value, list) else []

    def __bool__(self) -> bool:
        return bool(self._values)


def project_key(root: str) -> str:
    """A name for the project's files in the user's directories: readable, and one for each folder."""
    real = os.path.realpath(root)
    name = "".join(letter if letter.isalnum() else "-" for letter in os.path.basename(real))[:40]
    return f"{name}-{zlib.crc32(os.fsencode(real)):08x}"


def session_path(root: str) -> str:
    """The file of the project at `root`."""
    return os.path.join(directories.user_state_directory(), "projects", f"{project_key(root)}.json")


def load_session(root: str) -> tuple[Values, WorkbenchError | None]:
    """What is remembered of the project at `root`. Blocks; never raises."""
    path = session_path(root)
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        return Values(), None
    except OSError as error:
        return Values(), _trouble(path, (error.strerror or str(error)).lower())
    try:
        found = json.loads(data) if len(data) <= LARGEST else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("schema"), int):
        return Values(), _trouble(path, "it is damaged")
    if found["schema"] > SCHEMA:
        return Values(), _trouble(path, "a later version of the program wrote it")
    if found.get("project") != os.path.realpath(root):
        return Values(), None
    return Values(found), None


def save_session(root: str, values: Mapping[str, object]) -> None:
    """Keep this of the project at `root`, in place of what was there. Blocks. Raises StorageError."""
    path = session_path(root)
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot make the folder: {(error.strerror or str(error)).lower()}",
            remedy="What the screens look like is not remembered until it can be made.",
            file=os.path.dirname(path),
        ) from error
    whole = {"schema": SCHEMA, "project": os.path.realpath(root), **values}
    write_atomically(path, json.dumps(whole, indent=1).encode("ascii"), mode=0o600)


def _trouble(path: str, why: str) -> WorkbenchError:
    return StorageError(
        f"what this project looked like cannot be read: {why}",
        remedy="It begins as at the first time. The file is written anew when you leave.",
        file=path,
    )
