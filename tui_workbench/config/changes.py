"""Changes of several files as one step: shown before they happen, made all or not at all, and taken back as one.

Invariants: a change is made only to the files that it was planned for (a file that changed since is never overwritten);
when one file cannot be written, those written before it get their old bytes back; undo gives every file back to the
byte.
"""

from __future__ import annotations

import os

from tui_workbench import files
from tui_workbench.errors import ConfigurationError, StorageError, WorkbenchError
from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class FileChange(NamedTuple):
    """One file before and after. None means that there is no such file."""

    path: str
    before: bytes | None
    after: bytes | None

    @property
    def inverse(self) -> FileChange:
        """The way back."""
        return FileChange(self.path, self.after, self.before)


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
        return "".join(self._diffs(root))

    def _diffs(self, root: str) -> Iterator[str]:
        for change in self.changes:
            name = os.path.relpath(change.path, root) if root else change.path
            if not name.startswith(".."):
                yield unified_diff(change, name)

    def apply(self) -> None:
        """Make all changes.

        Raises ConfigurationError when a file is not what the change was planned for, StorageError when one cannot be
        written; then nothing has changed.
        """
        for change in self.changes:
            if _bytes_at(change.path) != change.before:
                raise _changed_since(change)
        done: list[FileChange] = []
        try:
            for change in self.changes:
                _put(change.path, change.after)
                done.append(change)
        except BaseException:
            for change in reversed(done):
                _put(change.path, change.before)
            raise


class ChangeHistory:
    """What was applied to the project's files, for undo and redo across screens."""

    def __init__(self) -> None:
        self._done: list[ChangeSet] = []
        self._undone: list[ChangeSet] = []

    def apply(self, change_set: ChangeSet) -> None:
        """Make the changes and remember them. Raises as `ChangeSet.apply` does."""
        change_set.apply()
        self._done.append(change_set)
        self._undone.clear()

    def undo(self) -> ChangeSet | None:
        """Take the last change set back; returns it, None when there is none. Raises as `ChangeSet.apply` does."""
        if not self._done:
            return None
        self._done[-1].inverse.apply()
        self._undone.append(self._done.pop())
        return self._undone[-1]

    def redo(self) -> ChangeSet | None:
        """Make the change set that was last taken back again; returns it, None when there is none."""
        if not self._undone:
            return None
        self._undone[-1].apply()
        self._done.append(self._undone.pop())
        return self._done[-1]

    def __len__(self) -> int:
        """How many change sets could be taken back."""
        return len(self._done)

    @property
    def undo_label(self) -> str:
        """What undo would take back, "" when nothing."""
        return self._done[-1].title if self._done else ""


def unified_diff(change: FileChange, name: str) -> str:
    """One file's change as a unified diff, three lines of context."""
    from difflib import unified_diff as diff

    before, after = (_lines(data) for data in (change.before, change.after))
    old = f"a/{name}" if change.before is not None else "/dev/null"
    new = f"b/{name}" if change.after is not None else "/dev/null"
    written = []
    for line in diff(before, after, old, new):
        written.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(written)


def _lines(data: bytes | None) -> list[str]:
    # A carriage return is part of the line end, not something to show at the end of every line.
    text = (data or b"").decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _bytes_at(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"cannot read it: {error.strerror}", remedy="Check its permissions.", file=path) from error


def _put(path: str, data: bytes | None) -> None:
    try:
        if data is None:
            os.unlink(path)
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot change it: {error.strerror}", remedy="Check its permissions.", file=path) from error
    files.write_atomically(path, data)


def _changed_since(change: FileChange) -> WorkbenchError:
    if change.before is None:
        return ConfigurationError("this file exists already", remedy="Choose another name.", file=change.path)
    return ConfigurationError("the file changed meanwhile", remedy="Look at it and try again.", file=change.path)
