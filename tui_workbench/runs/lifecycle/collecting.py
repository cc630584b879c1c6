"""Collect the files that a run has produced, at its end or later.

Files that the run created or changed are kept, except Python bytecode. Files that equal the snapshot can be removed.
Links are never followed, because a run can create links anywhere in its directory.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from itertools import islice

from tui_workbench.core.errors import StorageError, UsageError, storage_errors
from tui_workbench.core.files import (
    FOLDER_MODE,
    delete_below,
    is_folder_below,
    make_folders,
    open_folder,
    raise_error,
    rename_below,
)
from tui_workbench.core.model import RunState
from tui_workbench.projects.project import state_of_run
from tui_workbench.runs.lifecycle.target_lifecycle import TargetLifecycle
from tui_workbench.runs.metrics.recording import MetricsRecorder
from tui_workbench.runs.snapshots.snapshot import SnapshotStore
from tui_workbench.runs.snapshots.spare import can_move, discard, ended_copy, move, remove_discarded
from tui_workbench.runs.snapshots.working_copy import paths_below
from tui_workbench.runs.store.annotations import notify_index
from tui_workbench.runs.store.rundir import OUTPUTS, UNCHANGED, WORKING_COPY, ControllerLock, Record, RunDirectory
from tui_workbench.runs.transfer.into_project import keep_outputs
from tui_workbench.targets.hosts.host_run import SPARE_FILES
from tui_workbench.targets.registry import target_for


def collect(directory: RunDirectory, state_directory: str) -> None:
    """Fetch the missing files of an ended run, if any.

    Raises UsageError for an active run, and if another process is working on the run. Also raises ImportedRun,
    TargetUnreachable or StorageError.
    """
    record = directory.own_record()
    lock = ControllerLock.acquire(directory)
    if lock is None:
        raise UsageError(
            f"another process is working on run {directory.run_id}",
            remedy="Wait until that process has finished, then try again.",
        )
    with lock:
        run = directory.run()
        if run.is_active:
            raise UsageError(
                f"run {run.run_id} has not ended yet", remedy="Wait until it ends. Its files are fetched then."
            )
        if not run.lacks_outputs:
            return
        lifecycle = TargetLifecycle(target_for(record.spec.target), directory, record)
        with contextlib.closing(lifecycle), storage_errors("write", directory.path):
            lifecycle.collect()
        if run.state == RunState.COMPLETED:
            keep_outputs(directory, record)
        metrics = MetricsRecorder(directory)
        metrics.read()
        metrics.store()
        metrics.store_late()
        notify_index(state_directory, directory.run_id)


class EndedCopy:
    """The large working copy of an ended run, after `collect_outputs` has moved it to `path`."""

    def __init__(self, directory: RunDirectory, record: Record) -> None:
        state_directory = state_of_run(directory.path)
        self._store = SnapshotStore(record.spec.project_root, state_directory)
        self._commit, self._since = record.commit_id, directory.copied_at
        self.path = ended_copy(self._store.repository.path, directory.run_id)

    def keep(self) -> None:
        """Keep the copy for the next run, unless there is a spare already. Errors are ignored."""
        if os.path.lexists(self.path):
            with contextlib.suppress(StorageError, OSError, RecursionError):  # `keep` of another run discards the copy
                self._store.keep_spare(self.path, self._commit, self._since)

    def remove_unused(self) -> None:
        """Remove the copies that were not kept, which can take minutes."""
        remove_discarded(self._store.repository.path)


CACHE = "__pycache__"


def collect_outputs(
    directory: str, since_ns: int, *, drop_unchanged: bool = True, aside: str = "", is_unused: bool = False
) -> list[str]:
    """Move `outputs/` of an ended run out of the working copy, remove unchanged files, and list the others.

    `since_ns` is the time at which the copy was complete, in nanoseconds of the file system's clock. Files that were
    changed, renamed or linked later belong to the run. Without `drop_unchanged`, only bytecode is removed. The returned
    paths are relative to the copy. The call can be repeated after an interruption. Raises OSError.

    Removing many files takes long. A large copy is therefore moved to `aside`, if given, after the files of the run
    were moved out of it. `is_unused` means that no script has used the copy, so that it has no files of the run.
    """
    _move_outputs(directory)
    if aside and drop_unchanged and _set_aside(directory, since_ns, aside, is_unused=is_unused):
        return sorted(paths_below(os.path.join(directory, WORKING_COPY)))
    if not os.path.lexists(os.path.join(directory, WORKING_COPY)):
        return []
    top = open_folder(directory, WORKING_COPY)
    try:
        kept = _remove_unchanged(top, since_ns, drop_unchanged=drop_unchanged)
    finally:
        os.close(top)
    if drop_unchanged:
        parent = open_folder(directory)
        try:
            _remove_empty(WORKING_COPY, parent)
        finally:
            os.close(parent)
    return sorted(kept)


def _remove_unchanged(top: int, since_ns: int, *, drop_unchanged: bool) -> list[str]:
    """Remove files from the open folder `top`, and return the changed files; see `collect_outputs`."""
    kept: list[str] = []
    for folder, folders, files, descriptor in os.fwalk(".", topdown=False, dir_fd=top):
        is_cache = os.path.basename(folder) == CACHE
        for name in files + folders:
            try:
                status = os.lstat(name, dir_fd=descriptor)
                if stat.S_ISDIR(status.st_mode):
                    if drop_unchanged or is_cache or name == CACHE:
                        _remove_empty(name, descriptor)
                    continue
                # Programs cannot set ctime. They can set mtime, and copying a file sets its mtime.
                unchanged = status.st_ctime_ns <= since_ns
                if is_cache or (unchanged and drop_unchanged):
                    os.unlink(name, dir_fd=descriptor)
                elif not unchanged:
                    kept.append(os.path.normpath(os.path.join(folder, name)))
            except OSError:
                continue  # the file was removed, or is kept because the run made its folder read-only
    return kept


def _set_aside(directory: str, since_ns: int, aside: str, *, is_unused: bool) -> bool:
    """Move a large working copy to `aside`, and the files of the run back; see `collect_outputs`.

    Return False if nothing was done, because the copy is small, cannot be moved to `aside`, or has folders that are not
    accessible.
    """
    begun = is_folder_below(directory, UNCHANGED)
    changed: list[str] = []
    try:
        if is_unused and not begun:
            some = islice(paths_below(os.path.join(directory, WORKING_COPY)), SPARE_FILES)
            unchanged = sum(1 for _ in some)
        else:
            changed, unchanged = _changed_files(directory, UNCHANGED if begun else WORKING_COPY, since_ns)
    except OSError:
        if begun:
            raise
        return False
    if not begun:
        if unchanged < SPARE_FILES or not can_move(directory, aside):
            return False
        # After this rename, an interrupted call can be repeated: the files of the run that are not moved back yet are
        # still in UNCHANGED.
        rename_below(directory, WORKING_COPY, UNCHANGED)
    for path in changed:
        make_folders(directory, os.path.join(WORKING_COPY, os.path.dirname(path)))
        rename_below(directory, os.path.join(UNCHANGED, path), os.path.join(WORKING_COPY, path))
    try:
        discard(aside)  # the copy of an earlier attempt
        move(directory, UNCHANGED, aside)
    except OSError:
        delete_below(directory, UNCHANGED)
    return True


def _changed_files(directory: str, name: str, since_ns: int) -> tuple[list[str], int]:
    """Return the changed files of the folder `name`, without bytecode, and the number of the other files.

    Raises OSError, also if this user cannot move files out of a folder.
    """
    changed, unchanged = [], 0
    top = open_folder(directory, name)
    try:
        for folder, folders, files, descriptor in os.fwalk(".", dir_fd=top, onerror=raise_error):
            status = os.fstat(descriptor)
            if status.st_uid != os.geteuid() or status.st_mode & FOLDER_MODE != FOLDER_MODE:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder)
            is_cache = os.path.basename(folder) == CACHE
            for entry in files + folders:
                status = os.lstat(entry, dir_fd=descriptor)
                if stat.S_ISDIR(status.st_mode):
                    continue
                if is_cache or status.st_ctime_ns <= since_ns:
                    unchanged += 1
                else:
                    changed.append(os.path.normpath(os.path.join(folder, entry)))
    finally:
        os.close(top)
    return changed, unchanged


def _remove_empty(name: str, parent: int) -> None:
    try:
        os.rmdir(name, dir_fd=parent)
    except OSError:
        return  # not empty, or a link


def _move_outputs(directory: str) -> None:
    """Move `outputs/` out of the working copy, or create an empty folder. A link with this name stays."""
    produced = os.path.join(WORKING_COPY, OUTPUTS)
    if is_folder_below(directory, produced) and not os.path.lexists(os.path.join(directory, OUTPUTS)):
        rename_below(directory, produced, OUTPUTS)
    make_folders(directory, OUTPUTS)
