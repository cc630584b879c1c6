"""Restore the project to the snapshot of a run, or undo the last restore.

First, the current state is saved as a commit in the snapshot repository. Then only files in this commit are changed or
removed, and missing files are added, so that no content is lost. Ignored files, and files that a commit cannot contain,
stay unchanged; if such a file is at the path of a file to restore, this is reported. A journal is written before the
first change, so that one call can undo even a restore that was killed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tui_workbench.config.schema.data_references import declared_in_project
from tui_workbench.config.secret_values import is_run_configuration, keep_values
from tui_workbench.core.directories import CONFIG_DIRECTORY
from tui_workbench.core.errors import UsageError, storage_error, storage_errors
from tui_workbench.core.files import leads_through_folders, load_json, read_regular, write_below
from tui_workbench.core.json_values import read_as
from tui_workbench.projects.project import Project
from tui_workbench.runs.snapshots.file_copy import copy_file
from tui_workbench.runs.snapshots.snapshot import SnapshotStore
from tui_workbench.runs.snapshots.snapshot_view import damage, read_with_git
from tui_workbench.runs.snapshots.working_copy import paths_below
from tui_workbench.runs.store.rundir import Record

ADDED, CHANGED, REMOVED, LEFT = "added", "changed", "removed", "left"
"""Kinds of changes to files of the project. A file of kind LEFT is not restored, because its path is occupied."""

JOURNAL = "restored.json"
SAVED = "refs/saved"  # prefix of the references to saved states

_STAGING = "restoring"

MOST_LEVELS = 400
"""Maximum number of nested folders of a file to restore. Python creates and removes nested folders recursively."""


class Change(NamedTuple):
    """The change of a file. `path` is relative to the project."""

    kind: str
    path: str


class Restoration(NamedTuple):
    """The changes of a restore. `restored` is the run ID, or a description of the state that an undo restores."""

    restored: str
    changes: tuple[Change, ...]
    saved: str = ""  # commit of the state before the restore; "" if nothing was changed


class _Entry(NamedTuple):
    """The journal of the last restore, which may have been killed."""

    before: str  # commit of the state before the restore
    to: str  # the restored commit
    what: str  # as `Restoration.restored`
    is_undo: bool
    is_complete: bool
    data: tuple[str, ...] = ()  # paths of data in the project, which were not part of the saved state


def restore(project: Project, record: Record, *, dry_run: bool = False) -> Restoration:
    """Restore the project to the snapshot of a run; see `Runs.restore`."""
    store = _store(project, record.spec.run_configuration.data_references)
    why = {
        "none": "it was not tracked, or its snapshot is on another machine",
        "copy": "git was not available, so it has no snapshot",
    }.get(record.snapshot, "")
    if not why and not store.holds(record.commit_id):
        why = damage(project.state_directory, record.commit_id) or "its commit is no longer in the project's snapshots"
    if why:
        raise UsageError(
            f"cannot restore the files of run {record.run_id}: {why}",
            remedy="Choose a tracked run whose git snapshot is in this project.",
        )
    return _restore(store, project, record.commit_id, record.run_id, dry_run=dry_run)


def undo(project: Project, *, dry_run: bool = False) -> Restoration:
    """Undo the last restore; see `Runs.undo_restore`."""
    entry = _read(project)
    if entry is None:
        raise UsageError(
            f"no restore to undo in {project.root}",
            remedy="First restore a snapshot: `workbench-tui project restore --run-id ID`.",
        )
    # An undo that was killed is completed, not reversed.
    commit = entry.to if entry.is_undo and not entry.is_complete else entry.before
    store = _store(project, {path: path for path in entry.data})
    return _restore(store, project, commit, _words(entry), is_undo=True, dry_run=dry_run)


def undoable(project: Project) -> str:
    """Return a description of the state that `undo` would restore, or "". Raises UsageError for a damaged journal."""
    entry = _read(project)
    return _words(entry) if entry else ""


def _words(entry: _Entry) -> str:
    if entry.is_undo:
        return "the state before the undo" if entry.is_complete else entry.what
    return f"the state before the restore of {entry.what}"


def _store(project: Project, recorded: Mapping[str, str]) -> SnapshotStore:
    # Data of any run configuration, and the recorded data, is not part of the snapshot: it is not saved or removed.
    declared = [*(configuration.data_references for configuration in project.run_configurations()), recorded]
    store = SnapshotStore(project.root, project.state_directory, declared_in_project(project.root, declared))
    if not store.available:
        raise UsageError(
            "restoring needs git, which is not on the PATH", remedy="Install git, or add its folder to the PATH."
        )
    return store


def _changes(project: Project, before: str, after: str, more: Sequence[str] = ()) -> tuple[Change, ...]:
    """Return the changes between two commits or trees. `more` are further folders of git objects.

    Raises StorageError, or UsageError before anything is changed if a change is impossible.
    """
    root = project.root
    words = ("diff-tree", "-r", "--no-renames", "--name-status", "-z", before, after)
    fields = os.fsdecode(read_with_git(project.state_directory, *words, more=more)).split("\0")[:-1]
    kinds = dict(sorted(zip(fields[1::2], fields[::2], strict=True)))
    deep = next((path for path in kinds if path.count("/") > MOST_LEVELS), "")
    if deep:
        raise UsageError(
            f"cannot restore {deep[:40]}...: it is in more than {MOST_LEVELS} nested folders",
            remedy="Clone the snapshot with git instead: `git clone .workbench/snapshots.git FOLDER`.",
        )
    removed = {path for path, kind in kinds.items() if kind == "D"}
    changes = []
    for path, letter in kinds.items():
        kind = {"A": ADDED, "D": REMOVED}.get(letter, CHANGED)
        changes.append(Change(LEFT if kind == ADDED and _is_taken(root, path, removed) else kind, path))
    return tuple(changes)


def _is_taken(root: str, path: str, removed: set[str]) -> bool:
    """Return True if a file that is not in a snapshot has this path, or the path of one of its parents."""
    parts = path.split("/")
    for size in range(1, len(parts) + 1):
        relative = "/".join(parts[:size])
        whole = os.path.join(root, relative)
        if relative in removed or not os.path.lexists(whole):
            return False
        if os.path.islink(whole) or not os.path.isdir(whole):
            return True
    # If there is a folder at the path of a file, other files in it must not be removed.
    return any(os.path.join(path, inner) not in removed for inner in paths_below(os.path.join(root, path)))


def _restore(
    store: SnapshotStore, project: Project, commit: str, restored: str, *, is_undo: bool = False, dry_run: bool
) -> Restoration:
    if dry_run:
        # Nothing is written into the project, its state included.
        with tempfile.TemporaryDirectory(prefix="workbench-git-") as folder:
            preview = SnapshotStore(project.root, project.state_directory, store.data, preview=folder)
            objects = os.path.join(preview.repository.path, "objects")
            return Restoration(restored, _changes(project, preview.tree(), commit, [objects]))
    with store.repository.exclusive():
        project.prepare_state()
        saved = store.record(f"{SAVED}/{time.time_ns() // 1_000_000}", f"before {restored}")
        changes = _changes(project, saved, commit)
        if all(change.kind == LEFT for change in changes):
            return Restoration(restored, changes)
        earlier = _read(project)
        # If the last restore was killed, an undo must return to the state before it.
        is_mixture = earlier is not None and not earlier.is_complete and not is_undo and not earlier.is_undo
        before = earlier.before if earlier is not None and is_mixture else saved
        entry = _Entry(before, commit, restored, is_undo, is_complete=False, data=tuple(store.data))
        _write(project, entry)
        _apply(store, project, commit, changes)
        _write(project, entry._replace(is_complete=True))
    return Restoration(restored, changes, saved)


def _apply(store: SnapshotStore, project: Project, commit: str, changes: Iterable[Change]) -> None:
    staging = os.path.join(project.state_directory, _STAGING)
    shutil.rmtree(staging, ignore_errors=True)
    arriving = [change.path for change in changes if change.kind in (ADDED, CHANGED)]
    path = project.root
    try:
        os.makedirs(staging, mode=0o700)
        if arriving:
            with store.repository.index_of(commit):
                store.repository.check_out_files(arriving, staging)
        for relative in filter(is_run_configuration, arriving):
            path = os.path.join(staging, relative)
            if not os.path.islink(path):
                keep_values(project.root, read_regular(path))
        # Files are removed first, because a restored file can be at the path of a folder of removed files.
        for change in changes:
            path = os.path.join(project.root, change.path)
            if change.kind == REMOVED:
                _remove(project.root, change.path)
        for relative in arriving:
            path = os.path.join(project.root, relative)
            _move_into_project(os.path.join(staging, relative), project.root, relative)
    except OSError as error:
        failed = storage_error("restore", path, error)
        failed.remedy += " Then try again, or undo the restore: `workbench-tui project restore --undo`."
        raise failed from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _remove(root: str, relative: str) -> None:
    """Remove a file, and the folders that become empty."""
    path = os.path.join(root, relative)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with contextlib.suppress(OSError):
        os.removedirs(os.path.dirname(path))
    # A snapshot of another project may have no configuration; without this folder, no command would find the project.
    os.makedirs(os.path.join(root, CONFIG_DIRECTORY), exist_ok=True)


def _move_into_project(source: str, root: str, relative: str) -> None:
    """Move a file to its path atomically. A folder at this path is only replaced if it contains no files.

    Raises OSError.
    """
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
        if os.path.islink(source):
            os.symlink(os.readlink(source), beside)
        else:
            copy_file(source, beside)
        os.replace(beside, destination)


def _keep_mode(source: str, destination: str) -> None:
    """Give `source` the read and write permissions of the file that it replaces.

    The execute permission is that of the snapshot.
    """
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
        return read_as(_Entry, load_json(os.path.join(project.state_directory, JOURNAL)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot read {JOURNAL} ({error}), so the state before the restore is unknown",
            remedy="Move the file away: then you can restore snapshots again, but not undo the last restore. "
            f"`git --git-dir=.workbench/snapshots.git for-each-ref {SAVED}` lists the states saved by restores.",
            file=os.path.join(project.state_directory, JOURNAL),
        ) from error


def _write(project: Project, entry: _Entry) -> None:
    text = json.dumps({**entry._asdict(), "time": time.time()})
    with storage_errors("write", os.path.join(project.state_directory, JOURNAL)):
        write_below(project.state_directory, JOURNAL, text.encode(), durable=True)
