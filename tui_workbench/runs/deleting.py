"""Delete runs: move them to the trash, restore them, and free their disk space.

A purge cannot be reversed. It first renames the directories in the trash, so that a partly deleted run cannot be
restored. The next purge completes an interrupted purge.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tui_workbench.core.errors import RunNotFound, StorageError, UsageError, storage_errors
from tui_workbench.core.files import delete_below, folder_size, rename_below
from tui_workbench.core.locks import cache_lock, file_name
from tui_workbench.core.model import Run
from tui_workbench.core.progress import metered
from tui_workbench.projects.project import Project
from tui_workbench.runs.index.index import RunIndex, find_run
from tui_workbench.runs.index.trash import find_deleted, unfinished_purge
from tui_workbench.runs.lifecycle.dependencies import waiting_for
from tui_workbench.runs.resuming import lock_of_ended
from tui_workbench.runs.snapshots.snapshot import SnapshotStore
from tui_workbench.runs.snapshots.unneeded_values import remove_unneeded_values
from tui_workbench.runs.store import ownership
from tui_workbench.runs.store.annotations import read_annotations
from tui_workbench.runs.store.ownership import DELETED_PREFIX, PURGED_PREFIX
from tui_workbench.runs.store.rundir import RECORD, ControllerLock, RunDirectory
from tui_workbench.runs.sweeps import sweep

_CAUSES = {
    errno.EACCES: "permission denied; only the user who created its files, such as root in a container, can delete it",
    errno.EBUSY: "it contains a mounted file system; unmount it, then purge again",
    errno.EXDEV: "it contains a mounted file system; unmount it, then purge again",
}
_CAUSES[errno.EPERM] = _CAUSES[errno.EACCES]


class Purged(NamedTuple):
    """The result of a purge: the IDs of the deleted runs, the freed bytes of runs and of snapshots, and the errors."""

    run_ids: tuple[str, ...]
    size: int
    snapshot_size: int
    problems: tuple[str, ...]


def check(project: Project, run_id: str) -> None:
    """Raise RunNotFound for an unknown run, and UsageError if the run is active, pinned or needed by other runs."""
    directory = find_run(project, run_id)
    with _locked(directory):
        _refuse_needed(project, directory)


def delete(project: Project, run_id: str) -> str:
    """Move an ended run to the trash, and return its ID.

    Raises RunNotFound, StorageError, and UsageError if the run is active, pinned or needed by other runs, or if the
    trash contains another run with this ID.
    """
    directory = find_run(project, run_id)
    with _locked(directory):
        _refuse_needed(project, directory)
        if os.path.lexists(os.path.join(project.runs_directory, DELETED_PREFIX + directory.run_id)):
            raise UsageError(
                f"another run with the ID {directory.run_id} is in the trash",
                remedy=f"Delete that run permanently first: `workbench-tui history purge {directory.run_id}`.",
            )
        with storage_errors("delete", directory.path):
            rename_below(project.runs_directory, directory.run_id, DELETED_PREFIX + directory.run_id)
    return directory.run_id


@contextlib.contextmanager
def _locked(directory: RunDirectory) -> Iterator[None]:
    """Lock an ended run of this user, so that no other process starts it again. Raises UsageError or StorageError.

    The files of another user's run do not show whether the run is active. Such a run counts as ended if no process
    holds its lock.
    """
    if not directory.is_own:
        if ControllerLock.holder(directory):
            _refuse_active(directory)
        yield
        return
    if not directory.status().end:
        _refuse_active(directory)
    with lock_of_ended(directory):
        if not directory.status().end:  # another process has started the run again before this process got the lock
            _refuse_active(directory)
        yield


def _refuse_active(directory: RunDirectory) -> None:
    remedy = (
        "Wait until it ends, or cancel it if it is your own run: "
        f"`workbench-tui experiment cancel -r {directory.run_id}`."
    )
    raise UsageError(f"run {directory.run_id} is active and cannot be deleted", remedy=remedy)


def _refuse_needed(project: Project, directory: RunDirectory) -> None:
    """Raise UsageError if a run is pinned, or if other runs need it."""
    run_id = directory.run_id
    if read_annotations(directory.path).pinned:
        remedy = f"Unpin it first: `workbench-tui history pin -r {run_id} --undo`."
        raise UsageError(f"run {run_id} is pinned and cannot be deleted", remedy=remedy)
    if waiting := waiting_for(directory):
        names = ", ".join(other.run_id for other in waiting)
        raise UsageError(
            f"run {run_id} cannot be deleted, because queued runs start after it: {names}",
            remedy="Wait until they start, or cancel them: `workbench-tui experiment cancel -r ID`.",
        )
    with contextlib.suppress(RunNotFound):
        group = directory.read_record().group
        if group and sweep.is_being_made(project, group):
            message = f"run {run_id} cannot be deleted, because {group} still creates runs and would create it again"
            raise UsageError(
                message,
                remedy=f"Wait until {group} has created all runs, or stop it: "
                f"`workbench-tui experiment cancel --group {group}`.",
            )


def outdated(project: Project, keep: int) -> list[Run]:
    """Return the ended runs that are not among the `keep` newest runs, newest first.

    Runs are omitted if they are pinned, if their annotations cannot be read, or if their outputs have not been fetched.
    """
    with RunIndex(project) as index:
        old = index.runs()[keep:]
    runs = []
    for run in old:
        annotations = read_annotations(run.directory)
        if not (run.is_active or run.lacks_outputs or annotations.pinned or annotations.problem):
            runs.append(run)
    return runs


def restore(project: Project, run_id: str) -> str:
    """Move a run from the trash back to the history, and return its ID.

    Raises RunNotFound, StorageError, and UsageError if another run has the ID.
    """
    (run,) = find_deleted(project, [run_id])
    path = os.path.join(project.runs_directory, run.run_id)
    if os.path.lexists(path):
        raise UsageError(
            f"another run has the ID {run.run_id}",
            remedy=f"Move the directory {path} to another folder, then try again.",
        )
    with storage_errors("restore", path):
        rename_below(project.runs_directory, DELETED_PREFIX + run.run_id, run.run_id)
    return run.run_id


def purge(
    project: Project, run_ids: Sequence[str], delete_copies: Callable[[frozenset[str]], list[str]] = lambda _: []
) -> Purged:
    """Delete runs in the trash, and runs whose purge was interrupted, with the snapshots that no other run uses.

    Before the directories are deleted, `delete_copies` is called with the IDs of the runs that this user submitted on
    this machine, and returns errors. The result contains these errors and the errors of the deletion. Raises
    StorageError.
    """
    with cache_lock(f"purge-{file_name(project.state_directory)[-150:]}"):
        problems: list[str] = []
        for run_id in run_ids:
            with _noted(problems, run_id), contextlib.suppress(FileNotFoundError):
                rename_below(project.runs_directory, DELETED_PREFIX + run_id, PURGED_PREFIX + run_id)
        unfinished = unfinished_purge(project)  # with the runs of an interrupted purge
        # Runs that were renamed no longer keep their snapshots.
        snapshot_size = 0
        snapshots = SnapshotStore(project.root, project.state_directory)
        with _noted(problems, "snapshots"):
            snapshot_size = snapshots.discard()
            remove_unneeded_values(project, snapshots)
        problems += delete_copies(frozenset(run_id for run_id in unfinished if _is_own_purged(project, run_id)))
        size, done = 0, []
        for run_id in metered("deleting", "runs", unfinished):
            with _noted(problems, run_id):
                run_size = folder_size(os.path.join(project.runs_directory, PURGED_PREFIX + run_id))
                delete_below(project.runs_directory, PURGED_PREFIX + run_id)
                # The entry may belong to another run with the same ID, such as a run from a backup.
                if not ownership.has_folder(project.runs_directory, run_id):
                    ownership.forget(os.path.join(project.runs_directory, run_id, RECORD))
                size += run_size
                done.append(run_id)
    return Purged(tuple(done), size, snapshot_size, tuple(problems))


def _is_own_purged(project: Project, run_id: str) -> bool:
    """Return True if this user submitted the run, and no other run has its ID, such as a run from a backup.

    An interrupted purge may have deleted the record of the run already.
    """
    folder = os.path.join(project.runs_directory, PURGED_PREFIX + run_id)
    record = os.path.join(project.runs_directory, run_id, RECORD)
    return ownership.is_claimed(folder, record) and not ownership.has_folder(project.runs_directory, run_id)


@contextlib.contextmanager
def _noted(problems: list[str], subject: str) -> Iterator[None]:
    """Add a StorageError or OSError to `problems` instead of raising it."""
    try:
        yield
    except StorageError as error:
        problems.append(f"{subject}: {error.message}")
    except OSError as error:
        problems.append(f"{subject}: {_CAUSES.get(error.errno or 0) or error.strerror or error}")
