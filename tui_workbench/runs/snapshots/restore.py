"""The project as a run had it, and back.

What is there is saved first, as a commit among the project's snapshots; only then is anything touched, and only what
that commit holds or what was not there. So nothing is ever lost: what the ignore files exclude, and whatever a commit
cannot hold, stays as it is and is named. Where this goes on after it was killed is written down before the first file
is changed, so that one call brings back what was there.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import stat
import time
from collections.abc import Iterable
from typing import NamedTuple

from tui_workbench.config.schema.data_references import data_in_project
from tui_workbench.core.errors import UsageError, storage_error, storage_errors
from tui_workbench.core.files import load_json, write_below
from tui_workbench.projects.project import Project
from tui_workbench.runs.snapshots.snapshot import SnapshotStore
from tui_workbench.runs.snapshots.working_copy import leads_through_folders
from tui_workbench.runs.store.rundir import Record

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


def restore(project: Project, record: Record, *, dry_run: bool = False) -> Restoration:
    """Make the project what it was when a run was submitted; with `dry_run` only tell what that would change.

    Raises UsageError, StorageError.
    """
    store = _store(project, record)
    why = {
        "none": "it ran in the project itself and has no snapshot",
        "copy": "there was no git when it ran, so it has no snapshot",
    }.get(record.snapshot, "")
    if not why and not store.holds(record.commit_id):
        why = "its commit is not in the project's snapshots any more"
    if why:
        raise UsageError(f"{record.run_id} cannot be restored: {why}", remedy="Choose another run.")
    return _restore(store, project, record.commit_id, record.run_id, dry_run=dry_run)


def undo(project: Project, *, dry_run: bool = False) -> Restoration:
    """Bring back what was there before the last restore; a second time, what was there before that.

    With `dry_run` only tell what that would change. Raises UsageError when there is nothing to undo, StorageError.
    """
    entry = _read(project)
    if entry is None:
        raise UsageError(
            f"nothing was restored in {project.root}", remedy="`project restore --run-id ID` restores a run's snapshot."
        )
    # An undo that was killed is finished, not turned around.
    commit = entry.to if entry.is_undo and not entry.is_complete else entry.before
    return _restore(_store(project), project, commit, _words(entry), is_undo=True, dry_run=dry_run)


def undoable(project: Project) -> str:
    """What `undo` would bring back, in words; "" when nothing."""
    entry = _read(project)
    return _words(entry) if entry else ""


def _words(entry: _Entry) -> str:
    if entry.is_undo and not entry.is_complete:
        return entry.what
    return f"what was there before {entry.what}"


def _store(project: Project, record: Record | None = None) -> SnapshotStore:
    # Data, of any run configuration now or of the run then, is in no snapshot: it is neither saved nor removed.
    then = (record.spec.run_configuration,) if record is not None else ()
    references = tuple(each for one in (*project.run_configurations(), *then) for each in one.data_references)
    store = SnapshotStore(project.root, project.state_directory, data_in_project(project.root, references))
    if not store.available:
        raise UsageError("restoring needs git, which is not on the PATH", remedy="Install git.")
    return store


def _changes(store: SnapshotStore, root: str, before: str, after: str) -> tuple[Change, ...]:
    words = store.names("diff-tree", "-r", "--no-renames", "--name-status", before, after)
    kinds = dict(sorted(zip(words[1::2], words[::2], strict=True)))
    removed = {path for path, kind in kinds.items() if kind == "D"}
    changes = []
    for path, letter in kinds.items():
        kind = {"A": ADDED, "D": REMOVED}.get(letter, CHANGED)
        changes.append(Change(LEFT if kind == ADDED and _is_taken(root, path, removed) else kind, path))
    return tuple(changes)


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


def _restore(
    store: SnapshotStore, project: Project, commit: str, what: str, *, is_undo: bool = False, dry_run: bool
) -> Restoration:
    with store.exclusive():
        if dry_run:
            return Restoration(what, _changes(store, project.root, store.tree(), commit))
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
        failed.remedy += " Then try again, or `workbench-tui project restore --undo`."
        raise failed from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _remove(root: str, relative: str) -> None:
    """Remove a file, and the folders that are empty without it."""
    path = os.path.join(root, relative)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with contextlib.suppress(OSError):
        os.removedirs(os.path.dirname(path))


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
        stored = load_json(os.path.join(project.state_directory, JOURNAL))
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
    text = json.dumps({**entry._asdict(), "time": time.time()})
    with storage_errors("write", os.path.join(project.state_directory, JOURNAL)):
        write_below(project.state_directory, JOURNAL, text.encode(), durable=True)
