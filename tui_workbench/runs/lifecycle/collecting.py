"""Collect the files that a run has produced, at its end or later.

Files that the run created or changed are kept, except Python bytecode. Files that equal the snapshot can be removed.
Links are never followed, because a run can create links anywhere in its directory.
"""

from __future__ import annotations

import contextlib
import os
import stat

from tui_workbench.core.errors import UsageError, storage_errors
from tui_workbench.core.files import is_folder_below, make_folders, open_folder, rename_below
from tui_workbench.core.model import RunState
from tui_workbench.runs.lifecycle.target_lifecycle import TargetLifecycle
from tui_workbench.runs.metrics.recording import MetricsRecorder
from tui_workbench.runs.store.annotations import notify_index
from tui_workbench.runs.store.rundir import OUTPUTS, WORKING_COPY, ControllerLock, RunDirectory
from tui_workbench.runs.transfer.into_project import keep_outputs
from tui_workbench.targets.base.registry import target_for


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


CACHE = "__pycache__"


def collect_outputs(directory: str, since_ns: int, *, drop_unchanged: bool = True) -> list[str]:
    """Move `outputs/` of an ended run out of the working copy, remove unchanged files, and list the others.

    `since_ns` is the time at which the copy was complete, in nanoseconds of the file system's clock. Files that were
    changed, renamed or linked later belong to the run. Without `drop_unchanged`, only bytecode is removed. The returned
    paths are relative to the copy. The call can be repeated after an interruption. Raises OSError.
    """
    _move_outputs(directory)
    kept: list[str] = []
    if not os.path.lexists(os.path.join(directory, WORKING_COPY)):
        return kept
    top = open_folder(directory, WORKING_COPY)
    try:
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
    finally:
        os.close(top)
    if drop_unchanged:
        parent = open_folder(directory)
        try:
            _remove_empty(WORKING_COPY, parent)
        finally:
            os.close(parent)
    return sorted(kept)


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
