"""Create the directory of a run.

The directory is created with a temporary name, registered as this user's own, and then renamed to a unique run ID.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from tui_workbench.core.errors import StorageError, storage_errors
from tui_workbench.core.files import remove_below
from tui_workbench.core.processes import uninterrupted
from tui_workbench.projects.project import Project
from tui_workbench.runs.store import ownership
from tui_workbench.runs.store.ownership import BUILDING_PREFIX
from tui_workbench.runs.store.rundir import RECORD, ControllerLock, Record, RunDirectory

BUILDING_SECONDS = 10.0  # minimum age at which a folder with a free lock counts as abandoned


@contextlib.contextmanager
def new_directory(project: Project, run_id: str) -> Iterator[tuple[RunDirectory, ControllerLock]]:
    """Create the folder of a new run, for `publish`. If the context raises an exception, the folder is removed.

    The lock of the run is held. After `publish`, the caller must release it. Raises StorageError.
    """
    directory = _begin_directory(project, run_id)
    lock: ControllerLock | None = None
    try:
        lock = ControllerLock.wait_for(directory)
        yield directory, lock
    except BaseException:
        with uninterrupted():
            discard_run(directory, os.path.join(project.runs_directory, run_id))
            if lock is not None:
                lock.release()
        raise


def _begin_directory(project: Project, run_id: str) -> RunDirectory:
    """Create the folder, which only this user can access. Raises StorageError."""
    building = os.path.join(project.runs_directory, BUILDING_PREFIX + run_id)
    with storage_errors("create", building):
        os.mkdir(building, 0o700)
    try:
        ownership.claim(building, _record_path(project, run_id))
    except OSError as error:
        discard(building)
        raise _not_registered(error) from error
    return RunDirectory(building)


def publish(building: RunDirectory, record: Record) -> RunDirectory:
    """Register the complete directory as this user's own and rename it. Raises StorageError.

    To start the script sooner, the directory is not flushed to disk here, but by the controller.
    """
    final = record.spec.run_directory
    try:
        ownership.register(building.file(RECORD), os.path.join(final, RECORD))
    except OSError as error:
        raise _not_registered(error) from error
    with storage_errors("create", final):
        os.rename(building.path, final)
    return RunDirectory(final)


def _record_path(project: Project, run_id: str) -> str:
    return os.path.join(project.runs_directory, run_id, RECORD)


def _not_registered(error: OSError) -> StorageError:
    return StorageError(
        f"cannot register the run as yours: {error.strerror or error}",
        remedy="Check the disk space and the permissions of this folder, or set XDG_STATE_HOME to a writable folder.",
        file=ownership.registry(),
    )


def remove_unfinished(project: Project) -> None:
    """Remove the folders of this user's interrupted submissions."""
    try:
        names = [name for name in os.listdir(project.runs_directory) if name.startswith(BUILDING_PREFIX)]
    except OSError:
        return
    for name in names:
        building = os.path.join(project.runs_directory, name)
        record = _record_path(project, name.removeprefix(BUILDING_PREFIX))
        try:
            if not ownership.is_claimed(building, record):
                continue
            if time.time() - os.lstat(building).st_ctime < BUILDING_SECONDS:
                continue  # the creator may not hold the lock yet
            lock = ControllerLock.acquire_new(RunDirectory(building))
        except (OSError, StorageError):
            continue
        if lock is not None:
            discard(building)
            ownership.forget(record)
            lock.release()


def discard_run(directory: RunDirectory, final: str) -> None:
    """Remove an incomplete run directory and its entry in the registry; `final` is its intended path.

    A published directory is renamed first, so that other processes never find a run without run.json.
    """
    folder, name = os.path.split(final)
    hidden = os.path.join(folder, BUILDING_PREFIX + name)
    with contextlib.suppress(OSError):
        os.rename(directory.path, hidden)
    discard(hidden)
    discard(directory.path)
    ownership.forget(os.path.join(final, RECORD))


def discard(folder: str) -> None:
    """Remove a folder of a run, ignoring errors."""
    remove_below(os.path.dirname(folder), os.path.basename(folder))
