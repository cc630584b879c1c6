"""Change several files in one step, with a diff and undo.

A file that changed after planning is never overwritten. If a file cannot be written, the old content of the other files
is restored. Undo restores every byte.
"""

from __future__ import annotations

import contextlib
import os
import re
from difflib import unified_diff as diff
from typing import NamedTuple

from tui_workbench.config.document import Document
from tui_workbench.core import files, text_files
from tui_workbench.core.errors import ConfigurationError, storage_error
from tui_workbench.core.files import read_file


class FileChange(NamedTuple):
    """The content of a file before and after a change. None means that the file does not exist."""

    path: str
    before: bytes | None
    after: bytes | None

    @property
    def inverse(self) -> FileChange:
        return FileChange(self.path, self.after, self.before)


def edited(document: Document) -> FileChange:
    """Return the unsaved change of a document. Raises StorageError if the encoding lacks a character."""
    file = document.file
    return FileChange(file.path, file.encode(file.text), file.encode(document.text))


class ChangeSet(NamedTuple):
    """Changes of files that are applied and undone together."""

    title: str  # an imperative: "delete gpubox.compute"
    changes: tuple[FileChange, ...]
    notes: tuple[str, ...] = ()  # consequences that the user should know

    @property
    def inverse(self) -> ChangeSet:
        return ChangeSet(self.title, tuple(change.inverse for change in reversed(self.changes)))

    @property
    def is_empty(self) -> bool:
        return all(change.before == change.after for change in self.changes)

    def diff(self, root: str = "") -> str:
        """Return a unified diff with paths relative to `root`. Files outside `root` are omitted."""
        names = [os.path.relpath(change.path, root) if root else change.path for change in self.changes]
        pairs = zip(self.changes, names, strict=True)
        return "".join(unified_diff(change, name) for change, name in pairs if not name.startswith(".."))

    def apply(self) -> None:
        """Make all changes, or none.

        Raises ConfigurationError if a file changed after planning, and StorageError if a file cannot be written.
        """
        # All files are compared before the first is written, under their locks.
        with text_files.locked(change.path for change in self.changes):
            for change in self.changes:
                if bytes_at(change.path) == change.before:
                    continue
                if change.before is None:
                    raise ConfigurationError(
                        "the file already exists", remedy="Choose another name, or delete the file.", file=change.path
                    )
                raise ConfigurationError(
                    "the file has changed since the change was planned",
                    remedy="Review the file, then repeat the change.",
                    file=change.path,
                )
            # If a file cannot be written, the callbacks restore the files before it. `pop_all` keeps the new content.
            with contextlib.ExitStack() as undo:
                for change in self.changes:
                    _put(change.path, change.after)
                    undo.callback(_put, change.path, change.before)
                undo.pop_all()


class ChangeHistory:
    """The applied change sets, which all screens share and can undo."""

    def __init__(self) -> None:
        self._done: list[ChangeSet] = []

    def apply(self, change_set: ChangeSet) -> None:
        """Apply a change set, so that `undo` can undo it. Raises the errors of `ChangeSet.apply`."""
        change_set.apply()
        self._done.append(change_set)

    def undo(self) -> ChangeSet | None:
        """Undo and return the last change set, or None if all are undone. Raises the errors of `ChangeSet.apply`."""
        if not self._done:
            return None
        # The change set is removed only after `apply`, so that a failed undo can be repeated.
        self._done[-1].inverse.apply()
        return self._done.pop()

    def __len__(self) -> int:
        return len(self._done)

    @property
    def newest(self) -> ChangeSet | None:
        """The last applied change set, which `undo` would undo, or None."""
        return self._done[-1] if self._done else None


def unified_diff(change: FileChange, name: str) -> str:
    """Return the change of one file as a unified diff."""
    before, after = (_lines(data) for data in (change.before, change.after))
    old = f"a/{name}" if change.before is not None else "/dev/null"
    new = f"b/{name}" if change.after is not None else "/dev/null"
    lines = diff(before, after, old, new)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(data: bytes | None) -> list[str]:
    # A diff does not show a byte order mark or CRLF line endings.
    text = (data or b"").decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def bytes_at(path: str) -> bytes | None:
    """Return the content of a file, or None for a missing file. Raises StorageError if the file cannot be read."""
    try:
        return read_file(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error("read", path, error) from error


def _put(path: str, data: bytes | None) -> None:
    try:
        if data is None:
            os.unlink(path)
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        raise storage_error("change", path, error) from error
    files.write_atomically(path, data)
