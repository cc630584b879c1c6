"""The project as a run had it, and back.

What is there is saved first, as a commit among the project's snapshots; only then is anything touched, and only what
that commit holds or what was not there. So nothing is ever lost: what the ignore files exclude, and whatever a commit
cannot hold, stays as it is and is named. Where this goes on after it was killed is written down before the first file
is changed, so that one call brings back what was there.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import time

from tui_workbench.errors import UsageError
from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.runs.rundir import storage_error
from tui_workbench.runs.snapshot import SnapshotStore, leads_through_folders

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from tui_workbench.project import Project
    from tui_workbench.runs.rundir import Record

ADDED, CHANGED, REMOVED, LEFT = "added", "changed", "removed", "left"
"""What becomes of a file of the project; `left` is one that differs and is not touched."""

JOURNAL = "restored.json"
SAVED = "refs/saved"
"""Under it stand the commits of what was there before a restore."""

_STAGING = "restoring"


class Change(NamedTuple):
    """A file, by its path in the project, and what becomes of it."""

    kind: str
    path: str


class Restoration(NamedTuple):
    """What a restore would change or has changed. `what` is the run's id, or says what an undo brings back."""

    what: str
    changes: tuple[Change, ...]
    saved: str = ""  # the commit of what was there; "" when nothing was done


class _Entry(NamedTuple):
    """The journal: what the last restore did, or was doing when it was killed."""

    before: str  # the commit of what was there
    to: str  # the commit that was restored
    what: str
    is_undo: bool
    is_complete: bool


def preview(project: Project, record: Record) -> Restoration:
    """What restoring a run's snapshot would change; changes nothing. Raises UsageError, StorageError."""
    return _look(_store(project), project, _commit_of(project, record), record.run_id)


def restore(project: Project, record: Record) -> Restoration:
    """Make the project what it was when a run was submitted. Raises UsageError, StorageError."""
    return _restore(project, _commit_of(project, record), record.run_id, is_undo=False)


def preview_undo(project: Project) -> Restoration:
    """What `undo` would change. Raises UsageError when there is nothing to undo, StorageError."""
    commit, what = _undone(project)
    return _look(_store(project), project, commit, what)


def undo(project: Project) -> Restoration:
    """Bring back what was there before the last restore; a second time, what was there before that.

    Raises UsageError when there is nothing to undo, StorageError.
    """
    commit, what = _undone(project)
    return _restore(project, commit, what, is_undo=True)


def undoable(project: Project) -> str:
    """What `undo` would bring back, in words; "" when nothing."""
    entry = _read(project)
    return _words(entry) if entry else ""


def _undone(project: Project) -> tuple[str, str]:
    entry = _read(project)
    if entry is None:
        raise UsageError(
            f"nothing was restored in {project.root}", remedy="`project restore --run-id ID` restores a run's snapshot."
        )
    # An undo that was killed is finished, not turned around.
    return (entry.to if entry.is_undo and not entry.is_complete else entry.before), _words(entry)


def _words(entry: _Entry) -> str:
    if entry.is_undo and not entry.is_complete:
        return entry.what
    return f"what was there before {entry.what}"


def _store(project: Project) -> SnapshotStore:
    store = SnapshotStore(project.root, project.state_directory)
    if not store.available:
        raise UsageError("restoring needs git, which is not on the PATH", remedy="Install git.")
    return store


def _commit_of(project: Project, record: Record) -> str:
    why = {
        "none": "it ran in the project itself and has no snapshot",
        "copy": "there was no git when it ran, so it has no snapshot",
    }.get(record.snapshot, "")
    if not why and not _store(project).holds(record.commit_id):
        why = "its commit is not in the project's snapshots any more"
    if why:
        raise UsageError(f"{record.run_id} cannot be restored: {why}", remedy="Choose another run.")
    return record.commit_id


def _look(store: SnapshotStore, project: Project, commit: str, what: str) -> Restoration:
    with store.exclusive():
        return Restoration(what, _changes(store, project.root, store.tree(), commit))


def _changes(store: SnapshotStore, root: str, before: str, after: str) -> tuple[Change, ...]:
    words = store.names("diff-tree", "-r", "--no-renames", "--name-status", before, after)
    kinds = {"A": ADDED, "D": REMOVED}
    changes = [Change(kinds.get(kind, CHANGED), path) for kind, path in zip(words[::2], words[1::2], strict=True)]
    removed = {change.path for change in changes if change.kind == REMOVED}
    return tuple(
        sorted(
            (
                change._replace(kind=LEFT) if change.kind == ADDED and _is_taken(root, change.path, removed) else change
                for change in changes
            ),
            key=lambda change: change.path,
        )
    )


def _is_taken(root: str, path: str, removed: set[str]) -> bool:
    """True when something that no snapshot holds stands where a file would come, or on the way there."""
    parts = path.split("/")
    for size in range(1, len(parts) + 1):
        place = "/".join(parts[:size])
        whole = os.path.join(root, place)
        if place in removed or not os.path.lexists(whole):
            return False
        if os.path.islink(whole) or not os.path.isdir(whole):
            return True
    # A folder in the place of a file: what remains in it when the restored files are gone is not ours to remove.
    return any(
        os.path.relpath(os.path.join(folder, name), root) not in removed
        for folder, folders, files in os.walk(os.path.join(root, path))
        for name in (*files, *(each for each in folders if os.path.islink(os.path.join(folder, each))))
    )


def _restore(project: Project, commit: str, what: str, *, is_undo: bool) -> Restoration:
    store = _store(project)
    with store.exclusive():
        project.prepare_state()
        saved = store.record(f"{SAVED}/{time.time_ns() // 1_000_000}", f"before {what}")
        changes = _changes(store, project.root, saved, commit)
        if all(change.kind == LEFT for change in changes):
            return Restoration(what, changes)
        earlier = _read(project)
        # One that was killed half way has left a mixture behind: what counts is what was there before it.
        is_mixture = earlier is not None and not earlier.is_complete and not is_undo and not earlier.is_undo
        before = earlier.before if earlier is not None and is_mixture else saved
        entry = _Entry(before, commit, what, is_undo, is_complete=False)
        _write(project, entry)
        _apply(store, project, commit, changes)
        _write(project, entry._replace(is_complete=True))
    return Restoration(what, changes, saved)


def _apply(store: SnapshotStore, project: Project, commit: str, changes: Iterable[Change]) -> None:
    staging = os.path.join(project.state_directory, _STAGING)
    shutil.rmtree(staging, ignore_errors=True)
    arriving = [change.path for change in changes if change.kind in (ADDED, CHANGED)]
    path = project.root
    try:
        os.makedirs(staging, mode=0o700)
        if arriving:
            with store.index_of(commit):
                store.git("checkout-index", "-z", "--force", f"--prefix={staging}/", "--stdin", stdin=arriving)
        for change in changes:
            path = os.path.join(project.root, change.path)
            if change.kind == REMOVED:
                _remove(project.root, change.path)
        for relative in arriving:
            path = os.path.join(project.root, relative)
            _place(os.path.join(staging, relative), project.root, relative)
    except OSError as error:
        failed = storage_error("restore", path, error)
        raise type(failed)(
            failed.message,
            remedy=f"{failed.remedy} Then try again, or `workbench-tui project restore --undo`.",
            file=path,
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _remove(root: str, relative: str) -> None:
    """Remove a file, and the folders that are empty without it."""
    try:
        os.unlink(os.path.join(root, relative))
    except FileNotFoundError:
        pass
    folder = os.path.dirname(relative)
    while folder:
        try:
            os.rmdir(os.path.join(root, folder))
        except OSError:
            return  # something is left in it
        folder = os.path.dirname(folder)


def _place(source: str, root: str, relative: str) -> None:
    """Move a file to its place in one step. What was made there a moment ago and is in the way stays."""
    destination = os.path.join(root, relative)
    if not leads_through_folders(root, relative):
        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    os.makedirs(os.path.dirname(destination), exist_ok=True)
    if os.path.isdir(destination) and not os.path.islink(destination):
        for folder, _, _ in os.walk(destination, topdown=False):
            os.rmdir(folder)
    elif not os.path.islink(source):
        _keep_mode(source, destination)
    try:
        os.replace(source, destination)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        beside = f"{destination}.{os.getpid()}.restoring"
        shutil.copy2(source, beside, follow_symlinks=False)
        os.replace(beside, destination)


def _keep_mode(source: str, destination: str) -> None:
    """Who may read and write a file stays as it is; whether it can be executed is part of the snapshot."""
    try:
        status = os.lstat(destination)
    except FileNotFoundError:
        return
    if stat.S_ISREG(status.st_mode):
        mode = stat.S_IMODE(status.st_mode) & ~0o111
        executable = os.lstat(source).st_mode & 0o100
        os.chmod(source, mode | (mode & 0o444) >> 2 if executable else mode)


def _read(project: Project) -> _Entry | None:
    try:
        with open(os.path.join(project.state_directory, JOURNAL), encoding="utf-8") as file:
            stored: dict[str, Any] = json.load(file)
        return _Entry(**{name: stored[name] for name in _Entry._fields})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{JOURNAL} cannot be read ({error}), so what was there is not known by itself",
            remedy=f"`git --git-dir=.workbench/snapshots.git for-each-ref {SAVED}` lists what was saved.",
            file=os.path.join(project.state_directory, JOURNAL),
        ) from error


def _write(project: Project, entry: _Entry) -> None:
    path = os.path.join(project.state_directory, JOURNAL)
    temporary = f"{path}.{os.getpid()}.new"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump({**entry._asdict(), "time": time.time()}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise storage_error("write", path, error) from error
