"""Edits that were not saved, kept on disk while they are not, for when the terminal, the line or the machine goes.

Each workbench has a folder of its own below the user's state directory, one file in it for each text, and holds a lock
beside it as long as it lives. Who starts takes over the folders whose lock nobody holds.

The invariants: no workbench touches the folder of one that lives; a kept text goes only after it was saved or thrown
away by a person, or after whoever took it over has kept it; texts are readable by their user alone.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import os
import time
from collections.abc import Mapping
from typing import NamedTuple

from tui_workbench.core import directories
from tui_workbench.core.errors import StorageError
from tui_workbench.core.files import Signature, write_atomically
from tui_workbench.core.locks import open_lock, try_lock
from tui_workbench.core.text_files import TextFile
from tui_workbench.ui.session_state import Values, project_key

SCHEMA = 1


class Unsaved(NamedTuple):
    """A text that is not saved, the version of its file that it was made from, and when it was kept (epoch seconds)."""

    file: TextFile
    text: str
    kept_at: float = 0.0


class Recovery:
    """The unsaved texts of one workbench on the project at `root`. All methods block; call one at a time."""

    def __init__(self, root: str) -> None:
        self._base = os.path.join(directories.user_state_directory(), "recovery", project_key(root))
        self._folder = ""
        self._lock: int | None = None
        self._names: dict[str, str] = {}
        self._taken: list[tuple[str, int]] = []

    @property
    def base(self) -> str:
        """The folder of all workbenches on the project."""
        return self._base

    # --- Ours

    def keep(self, unsaved: Mapping[str, Unsaved]) -> None:
        """Keep these texts. Raises StorageError when one cannot be kept; those before it are."""
        for path, text in unsaved.items():
            self._open()
            name = self._names.get(path) or f"{len(self._names) + 1}-{os.urandom(3).hex()}.json"
            write_atomically(os.path.join(self._folder, name), _encoded(text), mode=0o600)
            self._names[path] = name

    def drop(self, paths: set[str]) -> None:
        """These texts were saved, or thrown away by a person."""
        for path in paths & self._names.keys():
            _remove(os.path.join(self._folder, self._names.pop(path)))

    def close(self) -> None:
        """Nothing is to be kept any longer."""
        self._names.clear()
        if self._lock is not None:
            _discard(self._folder, self._lock)
            self._lock = None

    def _open(self) -> None:
        if self._lock is not None:
            return
        folder = os.path.join(self._base, f"{os.getpid()}-{os.urandom(4).hex()}")
        try:
            os.makedirs(self._base, mode=0o700, exist_ok=True)
            # The lock is held before the folder is there, so a folder without a held lock is one of the dead.
            lock = _locked(folder)
            os.mkdir(folder, 0o700)
        except OSError as error:
            raise StorageError(
                f"unsaved edits cannot be kept in a recovery file: {(error.strerror or str(error)).lower()}",
                remedy="Save often: what is not saved is lost when the terminal goes.",
                file=self._base,
            ) from error
        self._folder, self._lock = folder, lock

    # --- Those of workbenches that are gone

    def take_over(self) -> tuple[list[Unsaved], list[StorageError]]:
        """The texts of workbenches that ended without saving them, oldest first, and what was wrong with others.

        They stay where they are until `let_go`: keep them first.
        """
        found: list[Unsaved] = []
        errors: list[StorageError] = []
        for folder in self._folders():
            try:
                lock = _locked(folder)
            except OSError:
                continue  # it lives
            self._taken.append((folder, lock))
            for path in _texts(folder):
                try:
                    found.append(_read(path))
                except StorageError as error:
                    errors.append(error)
        return sorted(found, key=lambda unsaved: unsaved.kept_at), errors

    def let_go(self) -> None:
        """What was taken over is kept elsewhere, or no longer needed."""
        for folder, lock in self._taken:
            _discard(folder, lock)
        self._taken.clear()

    def _folders(self) -> list[str]:
        folders = (os.path.join(self._base, name) for name in sorted(glob.glob("*/", root_dir=self._base)))
        return [folder.rstrip(os.sep) for folder in folders if folder.rstrip(os.sep) != self._folder]


def _locked(folder: str) -> int:
    """The lock of a workbench's folder, held from now on. Raises OSError when another one holds it."""
    descriptor = open_lock(f"{folder}.lock")
    if not try_lock(descriptor):
        os.close(descriptor)
        raise BlockingIOError(errno.EWOULDBLOCK, "another workbench holds it", folder)
    return descriptor


def _texts(folder: str) -> list[str]:
    return [os.path.join(folder, name) for name in sorted(glob.glob("*.json", root_dir=folder))]


def _discard(folder: str, lock: int) -> None:
    """Remove a folder with its texts, and its lock; one that holds something else stays, with that."""
    for path in _texts(folder):
        _remove(path)
    with contextlib.suppress(OSError):
        os.rmdir(folder)
    if not os.path.lexists(folder):
        _remove(f"{folder}.lock")
    os.close(lock)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _encoded(unsaved: Unsaved) -> bytes:
    file = unsaved.file._asdict() | {"signature": unsaved.file.signature._asdict()}
    kept = {"schema": SCHEMA, "kept_at": unsaved.kept_at or time.time(), "text": unsaved.text, "file": file}
    return json.dumps(kept).encode("ascii")


def _read(path: str) -> Unsaved:
    """The text that is kept there. Raises StorageError, and then sets the file aside, so that it is told once."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read())
        values, base = Values(found), Values(found).part("file")
        if values.number("schema") != SCHEMA or not base.text("path") or "text" not in found:
            raise ValueError("not what a workbench writes")
        signature = found["file"]["signature"]
        version = TextFile(
            base.text("path"),
            base.text("text"),
            Signature(**signature) if isinstance(signature, dict) else Signature(*signature),  # a list: until 0.1.0
            encoding=base.text("encoding"),
            newline=base.text("newline"),
            has_bom=base.flag("has_bom"),
        )
        return Unsaved(version, values.text("text"), float(found["kept_at"]))
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        aside = f"{path}.unreadable"
        with contextlib.suppress(OSError):
            os.rename(path, aside)
        raise StorageError(
            "a recovery file of unsaved edits cannot be read", remedy="It was set aside.", file=aside
        ) from error
