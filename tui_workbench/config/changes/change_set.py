"""Changes of several files as one step: shown before they happen, made all or not at all, and taken back as one.

Invariants: a change is made only to the files that it was planned for (a file that changed since is never overwritten);
when one file cannot be written, those written before it get their old bytes back; undo gives every file back to the
byte.
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


class FileChange(NamedTuple):
    """One file before and after. None means that there is no such file."""

    path: str
    before: bytes | None
    after: bytes | None

    @property
    def inverse(self) -> FileChange:
        """The way back."""
        return FileChange(self.path, self.after, self.before)


def edited(document: Document) -> FileChange:
    """The change of a file that its document was edited to. Raises StorageError when its encoding lacks a character."""
    file = document.file
    return FileChange(file.path, file.encode(file.text), file.encode(document.text))


class ChangeSet(NamedTuple):
    """Changes that belong together. `title` says what they do, `notes` what they do not take care of."""

    title: str
    changes: tuple[FileChange, ...]
    notes: tuple[str, ...] = ()

    @property
    def inverse(self) -> ChangeSet:
        """The way back."""
        return ChangeSet(self.title, tuple(change.inverse for change in reversed(self.changes)))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return all(change.before == change.after for change in self.changes)

    def diff(self, root: str = "") -> str:
        """All changes as one unified diff with paths relative to `root`; files outside of it are left out."""
        names = [os.path.relpath(change.path, root) if root else change.path for change in self.changes]
        pairs = zip(self.changes, names, strict=True)
        return "".join(unified_diff(change, name) for change, name in pairs if not name.startswith(".."))

    def apply(self) -> None:
        """Make all changes.

        Raises ConfigurationError when a file is not what the change was planned for, StorageError when one cannot be
        written; then nothing has changed.
        """
        with text_files.locked(change.path for change in self.changes):
            for change in self.changes:
                if bytes_at(change.path) == change.before:
                    continue
                if change.before is None:
                    message, remedy = "this file exists already", "Choose another name."
                else:
                    message, remedy = "the file changed meanwhile", "Look at it and try again."
                raise ConfigurationError(message, remedy=remedy, file=change.path)
            with contextlib.ExitStack() as undo:
                for change in self.changes:
                    _put(change.path, change.after)
                    undo.callback(_put, change.path, change.before)
                undo.pop_all()


class ChangeHistory:
    """What was applied to the project's files, for undo across screens."""

    def __init__(self) -> None:
        self._done: list[ChangeSet] = []

    def apply(self, change_set: ChangeSet) -> None:
        """Make the changes and remember them. Raises as `ChangeSet.apply` does."""
        change_set.apply()
        self._done.append(change_set)

    def undo(self) -> ChangeSet | None:
        """Take the last change set back; returns it, None when there is none. Raises as `ChangeSet.apply` does."""
        if not self._done:
            return None
        self._done[-1].inverse.apply()
        return self._done.pop()

    def __len__(self) -> int:
        """How many change sets could be taken back."""
        return len(self._done)

    @property
    def newest(self) -> ChangeSet | None:
        """The change set that `undo` would take back, None when there is none."""
        return self._done[-1] if self._done else None


def unified_diff(change: FileChange, name: str) -> str:
    """One file's change as a unified diff, three lines of context."""
    before, after = (_lines(data) for data in (change.before, change.after))
    old = f"a/{name}" if change.before is not None else "/dev/null"
    new = f"b/{name}" if change.after is not None else "/dev/null"
    lines = diff(before, after, old, new)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(data: bytes | None) -> list[str]:
    # A carriage return is part of the line end, not something to show at the end of every line.
    text = (data or b"").decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def bytes_at(path: str) -> bytes | None:
    """The content of a file, None when there is none. Raises StorageError when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
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
