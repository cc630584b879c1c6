"""Recovery files, which keep unsaved edits when the terminal, the connection or the machine fails.

Each process of the workbench has its own folder below the user's state directory, with a file for each unsaved text.
The process holds a lock on a file beside the folder. At its start, a process takes over the folders whose locks are
free.

The invariants: no process touches the folder of another live process; a text is deleted only after the user saved or
discarded it, or after the process that took it over has written it; only the user can read the texts.
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
from tui_workbench.core.files import Signature, read_file, write_atomically
from tui_workbench.core.json_values import parse_json
from tui_workbench.core.locks import open_lock, try_lock
from tui_workbench.core.text_files import TextFile
from tui_workbench.ui.session_state import Values, project_key

SCHEMA = 1
LARGEST = 64 << 20
"""Limit in bytes: a file has two editable texts, whose characters have up to six bytes in JSON."""


class Unsaved(NamedTuple):
    """An unsaved text, the version of the file that it is based on, and the time of writing (epoch seconds)."""

    file: TextFile
    text: str
    kept_at: float = 0.0


class Recovery:
    """The unsaved texts of this process in the project at `root`. All methods block. Not thread-safe."""

    def __init__(self, root: str) -> None:
        self._base = os.path.join(directories.user_state_directory(), "recovery", project_key(root))
        self._folder = ""
        self._lock: int | None = None
        self._names: dict[str, str] = {}
        self._taken: list[tuple[str, int]] = []

    @property
    def base(self) -> str:
        return self._base

    def keep(self, unsaved: Mapping[str, Unsaved]) -> None:
        """Write unsaved texts, keyed by path. Raises StorageError for the first text that cannot be written."""
        for path, edit in unsaved.items():
            self._open()
            name = self._names.get(path) or f"{len(self._names) + 1}-{os.urandom(3).hex()}.json"
            file = edit.file._asdict() | {"signature": edit.file.signature._asdict()}
            kept = {"schema": SCHEMA, "kept_at": edit.kept_at or time.time(), "text": edit.text, "file": file}
            write_atomically(os.path.join(self._folder, name), json.dumps(kept).encode("ascii"), mode=0o600)
            self._names[path] = name

    def drop(self, paths: set[str]) -> None:
        """Delete the texts of these paths, which the user saved or discarded."""
        for path in paths & self._names.keys():
            _remove(os.path.join(self._folder, self._names.pop(path)))

    def close(self) -> None:
        """Delete all texts and release the lock."""
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
            # The lock is taken before the folder exists, so the process of a folder with a free lock has ended.
            lock = _locked(folder)
            os.mkdir(folder, 0o700)
        except OSError as error:
            raise StorageError(
                f"cannot write a recovery file for unsaved edits: {(error.strerror or str(error)).lower()}",
                remedy="Check the free space and the permissions of the folder. Until recovery files can be written, "
                "save often: unsaved edits are lost if the terminal or the machine fails.",
                file=self._base,
            ) from error
        self._folder, self._lock = folder, lock

    def take_over(self) -> tuple[list[Unsaved], list[StorageError]]:
        """Return the texts of ended processes, oldest first, and the errors of unreadable files.

        The files stay until `delete_taken` is called. Before that, call `keep` with the texts.
        """
        texts: list[Unsaved] = []
        errors: list[StorageError] = []
        for name in sorted(glob.glob("*/", root_dir=self._base)):
            folder = os.path.join(self._base, name.rstrip(os.sep))
            if folder == self._folder:
                continue
            try:
                lock = _locked(folder)
            except OSError:
                continue  # the process of this folder is alive
            self._taken.append((folder, lock))
            for path in _texts(folder):
                try:
                    texts.append(_read(path))
                except StorageError as error:
                    errors.append(error)
        return sorted(texts, key=lambda unsaved: unsaved.kept_at), errors

    def delete_taken(self) -> None:
        """Delete the texts that were taken over."""
        for folder, lock in self._taken:
            _discard(folder, lock)
        self._taken.clear()


def _locked(folder: str) -> int:
    """Lock a folder and return the descriptor of the lock. Raises OSError when another process holds it."""
    descriptor = open_lock(f"{folder}.lock")
    if not try_lock(descriptor):
        os.close(descriptor)
        raise BlockingIOError(errno.EWOULDBLOCK, "another process holds the lock", folder)
    return descriptor


def _texts(folder: str) -> list[str]:
    return [os.path.join(folder, name) for name in sorted(glob.glob("*.json", root_dir=folder))]


def _discard(folder: str, lock: int) -> None:
    """Remove a folder with its texts and its lock. Keep a folder that contains other files."""
    for path in _texts(folder):
        _remove(path)
    with contextlib.suppress(OSError):
        os.rmdir(folder)
    if not os.path.lexists(folder):
        _remove(f"{folder}.lock")
    # The lock is held until the end, so that no other process takes over texts that are being deleted.
    os.close(lock)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _read(path: str) -> Unsaved:
    """Read a recovery file. Raises StorageError after renaming an invalid file."""
    try:
        data = parse_json(read_file(path, LARGEST), bits=64)  # an inode can have 64 bits
        values, base = Values(data), Values(data).part("file")
        if values.number("schema") > SCHEMA:
            raise _set_aside(path, "a later version of workbench-tui wrote it")
        if values.number("schema") != SCHEMA or not base.text("path") or "text" not in data:
            raise ValueError("unexpected content")
        signature = data["file"]["signature"]
        version = TextFile(
            base.text("path"),
            base.text("text"),
            Signature(**signature) if isinstance(signature, dict) else Signature(*signature),  # a list in old files
            encoding=base.text("encoding"),
            newline=base.text("newline"),
            has_bom=base.flag("has_bom"),
        )
        return Unsaved(version, values.text("text"), float(data["kept_at"]))
    except OSError as error:
        raise _set_aside(path, (error.strerror or str(error)).lower()) from error
    except (ValueError, TypeError, KeyError) as error:
        raise _set_aside(path, "the file is damaged") from error


def _set_aside(path: str, why: str) -> StorageError:
    """Rename an invalid file, so that it is reported only once and not deleted, and return the error."""
    aside = f"{path}.unreadable"
    try:
        os.rename(path, aside)
    except OSError:
        aside = path
    return StorageError(
        f"cannot read a recovery file for unsaved edits: {why}",
        remedy="Try to open the file in another editor: its key `text` holds the edited text.",
        file=aside,
    )
