"""The saved state of the screens: panes, sizes, open files, cursor, filters. One small file per project.

The invariants: a file that is damaged or from a later version is reported and ignored, and each value is read by type:
a value of another type counts as missing. The file is in the user's state directory, not in the project.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from tui_workbench.core import directories
from tui_workbench.core.errors import StorageError, WorkbenchError
from tui_workbench.core.files import open_file, write_atomically
from tui_workbench.core.json_values import parse_json

SCHEMA = 1  # version of the file format; later versions of the program may write a higher number
LARGEST = 1 << 20  # limit in bytes; a larger file counts as damaged


MOST_RECENT = 40  # maximum number of recent projects


class RecentProject(NamedTuple):
    """A project that was opened in the screens."""

    root: str
    used: float  # when its screens were last saved, in seconds since the epoch


class Values:
    """A JSON object of unknown content, whose values are read by type."""

    def __init__(self, values: object = None) -> None:
        self._values: Mapping[str, Any] = values if isinstance(values, Mapping) else {}

    def part(self, name: str) -> Values:
        """Return the nested object with this key, or an empty object."""
        return Values(self._values.get(name))

    def text(self, name: str) -> str:
        """Return the string with this key, or ""."""
        value = self._values.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> int:
        """Return the non-negative integer with this key, or 0."""
        value = self._values.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0

    def flag(self, name: str) -> bool:
        """Return True if the value with this key is `true`, else False."""
        return self._values.get(name) is True

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the strings of the list with this key, or ()."""
        return tuple(value for value in self._list(name) if isinstance(value, str))

    def parts(self, name: str) -> tuple[Values, ...]:
        """Return the objects of the list with this key, or (). An item of another type becomes an empty object."""
        return tuple(Values(value) for value in self._list(name))

    def _list(self, name: str) -> list[object]:
        value = self._values.get(name)
        return value if isinstance(value, list) else []

    def __bool__(self) -> bool:
        return bool(self._values)


def project_key(root: str) -> str:
    """Return a readable file name that is unique to the project's folder."""
    real = os.path.realpath(root)
    name = "".join(letter if letter.isalnum() else "-" for letter in os.path.basename(real))[:40]
    return f"{name}-{zlib.crc32(os.fsencode(real)):08x}"


def session_path(root: str) -> str:
    """Return the path of the session file of the project at `root`."""
    return os.path.join(directories.user_state_directory(), "projects", f"{project_key(root)}.json")


def recent_projects() -> list[RecentProject]:
    """Return the projects of the newest `MOST_RECENT` session files, the newest first. Blocks.

    The folders of the projects are not accessed.
    """
    folder = os.path.join(directories.user_state_directory(), "projects")
    newest: list[tuple[float, str]] = []
    with contextlib.suppress(OSError), os.scandir(folder) as files:
        newest = sorted((-file.stat().st_mtime, file.path) for file in files if file.name.endswith(".json"))
    projects = ((_read_values(path)[0].text("project"), -age) for age, path in newest[:MOST_RECENT])
    return [RecentProject(root, used) for root, used in projects if root]


def load_session(root: str) -> tuple[Values, WorkbenchError | None]:
    """Return the saved session of the project at `root`, and the error if it cannot be read. Blocks; never raises."""
    values, error = _read_values(session_path(root))
    return values if values.text("project") == os.path.realpath(root) else Values(), error


def _read_values(path: str) -> tuple[Values, WorkbenchError | None]:
    try:
        with open_file(path) as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        return Values(), None
    except OSError as error:
        return Values(), _unreadable(path, (error.strerror or str(error)).lower())
    try:
        values = parse_json(data) if len(data) <= LARGEST else None
    except ValueError:
        values = None
    if not isinstance(values, dict) or not isinstance(values.get("schema"), int):
        return Values(), _unreadable(path, "the file is damaged")
    if values["schema"] > SCHEMA:
        return Values(), _unreadable(path, "the file was written by a later version of workbench-tui")
    return Values(values), None


def save_session(root: str, values: Mapping[str, object]) -> None:
    """Replace the session file of the project at `root`. Blocks. Raises StorageError."""
    path = session_path(root)
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot create the folder: {(error.strerror or str(error)).lower()}",
            remedy="Check the free space and the permissions of its parent folder. Without the folder, the state "
            "of the screens is not saved.",
            file=os.path.dirname(path),
        ) from error
    whole = {"schema": SCHEMA, "project": os.path.realpath(root), **values}
    write_atomically(path, json.dumps(whole, indent=1).encode("ascii"), mode=0o600)


def _unreadable(path: str, why: str) -> WorkbenchError:
    return StorageError(
        f"cannot restore the screens of this project: {why}",
        remedy="No action is needed: the screens start with the default layout, and the file is replaced.",
        file=path,
    )
