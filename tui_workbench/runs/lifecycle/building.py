"""Create the directory of a run.

The directory is created with a temporary name, registered as this user's own, and then renamed to a unique run ID. For
a run that may have to wait, it also contains data for the process that starts the run: the environment of the
submitter, and a marker that the working copy must still be made.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator, Mapping

from tui_workbench.config.schema.data_references import data_in_project
from tui_workbench.core import locks
from tui_workbench.core.errors import StorageError, UsageError, storage_errors
from tui_workbench.core.files import (
    is_folder_below,
    load_json,
    make_folders,
    merge_below,
    open_below,
    remove_below,
    rename_below,
    unlink_below,
)
from tui_workbench.core.masking import mask_value
from tui_workbench.core.processes import uninterrupted
from tui_workbench.projects.project import Project, state_of_run
from tui_workbench.runs.store import ownership, rundir
from tui_workbench.runs.store.ownership import BUILDING_PREFIX
from tui_workbench.runs.store.rundir import (
    EARLIER,
    OUTPUTS,
    UNCHANGED,
    WORKING_COPY,
    ControllerLock,
    Record,
    RunDirectory,
    json_bytes,
)

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
        ownership.register(building.file(rundir.RECORD), os.path.join(final, rundir.RECORD))
    except OSError as error:
        raise _not_registered(error) from error
    with storage_errors("create", final):
        os.rename(building.path, final)
    return RunDirectory(final)


def _record_path(project: Project, run_id: str) -> str:
    return os.path.join(project.runs_directory, run_id, rundir.RECORD)


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
    ownership.forget(os.path.join(final, rundir.RECORD))


def discard(folder: str) -> None:
    """Remove a folder of a run, ignoring errors."""
    remove_below(os.path.dirname(folder), os.path.basename(folder))


RUN_NUMBER_FILE = "run_number"  # contains two counters of fixed length, so that updates need no disk space
COUNTERS_SIZE = 64
IDENTIFIER_LENGTH = 100  # maximum length of the project name in a run ID


def likely_run_id(project: Project) -> str:
    """Return the run ID that a run submitted now would get."""
    return _run_id(project, time.time_ns() // 1_000_000)


def reserve_run_id(project: Project) -> str:
    """Return a new run ID. Its time is later than the time in every other run ID, even if the clock was set back.

    Raises StorageError.
    """
    with _counters(project) as counters:
        counters.milliseconds = max(time.time_ns() // 1_000_000, counters.milliseconds + 1)
        return _run_id(project, counters.milliseconds)


def created_at(run_id: str) -> float:
    """Return the time in a run ID, in seconds since the epoch. Raises ValueError for an ID without a time."""
    return int(run_id.rpartition("_")[2]) / 1000


def next_run_number(project: Project) -> int:
    """Return the next run number of the project; numbers start at 1. Raises StorageError."""
    with _counters(project) as counters:
        counters.number += 1
        return counters.number


def identifier(name: str) -> str:
    """Convert a project name to text that is valid in folder names, git references and command lines."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in name)
    while ".." in plain:
        plain = plain.replace("..", ".")
    return plain.strip("-.")[:IDENTIFIER_LENGTH] or "project"


def _run_id(project: Project, milliseconds: int) -> str:
    return f"{identifier(project.name)}_{milliseconds}"


class _Counters:
    """The last run number, and the time in the last run ID in milliseconds since the epoch.

    This is not a dataclass, because the import of `dataclasses` takes 5 ms.
    """

    def __init__(self, number: int, milliseconds: int) -> None:
        self.number = number
        self.milliseconds = milliseconds


@contextlib.contextmanager
def _counters(project: Project) -> Iterator[_Counters]:
    """Lock and read the counters, and write them at the end of the context unless there was an error.

    Raises StorageError.
    """
    folder = project.state_directory
    with (
        storage_errors("write", os.path.join(folder, RUN_NUMBER_FILE)),
        locks.held(open_below(folder, RUN_NUMBER_FILE, os.O_RDWR | os.O_CREAT)) as descriptor,
    ):
        words = os.pread(descriptor, COUNTERS_SIZE, 0).split()
        is_whole = len(words) == 2 and all(word.isdigit() for word in words)
        counters = _Counters(*map(int, words)) if is_whole else _recovered_counters(project)
        yield counters
        line = b"%-15d %-15d\n" % (counters.number, counters.milliseconds)
        if os.pwrite(descriptor, line, 0) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _recovered_counters(project: Project) -> _Counters:
    number = milliseconds = 0
    for name in os.listdir(project.runs_directory):
        last = name.rpartition("_")[2]
        milliseconds = max(milliseconds, int(last) if last.isdecimal() else 0)
        if os.path.exists(os.path.join(project.runs_directory, name, rundir.RECORD)):
            try:
                record = RunDirectory(os.path.join(project.runs_directory, name)).read_record()
            except UsageError:
                continue
            number = max(number, record.run_number)
    return _Counters(number, milliseconds)


def save_environment(directory: RunDirectory, variables: Mapping[str, str]) -> None:
    """Store the environment, without secrets, for the process that will start the run. Raises StorageError."""
    directory.write(rundir.ENVIRONMENT, json_bytes(without_secrets(variables)))


def without_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables whose values are not secrets."""
    return {name: value for name, value in variables.items() if mask_value(name, value) == value}


def environment_of(directory: RunDirectory, own: Mapping[str, str]) -> Mapping[str, str]:
    """Return the stored environment with the secrets of `own`, or `own` if no environment is stored."""
    try:
        kept = load_json(directory.file(rundir.ENVIRONMENT))
    except (OSError, ValueError):
        return own
    secrets = {name: value for name, value in own.items() if mask_value(name, value) != value}
    return {**secrets, **kept} if isinstance(kept, dict) else own


def remove_environment(directory: RunDirectory) -> None:
    """Remove the stored environment of a run that has started or will never start."""
    with contextlib.suppress(OSError):
        unlink_below(directory.path, rundir.ENVIRONMENT)


def defer_copy(directory: RunDirectory) -> None:
    """Mark that the working copy must be made when the run starts. Raises StorageError."""
    directory.write(rundir.COPY, b"")


def wait_for_clock_tick(directory: RunDirectory, moment: int) -> None:
    """Wait until new files get a later time than `moment`, in nanoseconds. Raises OSError.

    The clock of a file system ticks every few milliseconds, or on old file systems every one or two seconds.
    """
    with open(open_below(directory.path, rundir.CONTROLLER_LOCK, os.O_RDWR), "rb") as clock:
        os.utime(clock.fileno())
        while os.fstat(clock.fileno()).st_mtime_ns <= moment:
            time.sleep(0.0005)
            os.utime(clock.fileno())


def make_copy(directory: RunDirectory, record: Record) -> None:
    """Create a deferred working copy, if it is not complete. Raises StorageError or LargeFiles."""
    try:
        if os.stat(directory.file(rundir.COPY)).st_size:
            return  # the copy is complete
    except OSError:
        return  # the submitter made the copy, or the run has none
    from tui_workbench.runs.snapshots.snapshot import SnapshotStore

    root = record.spec.project_root
    data = data_in_project(root, record.spec.run_configuration.data_references)
    store = SnapshotStore(root, state_of_run(directory.path), data)
    discard(directory.file(rundir.WORKING_COPY))
    store.check_out(record.commit_id, directory.file(rundir.WORKING_COPY))
    directory.write(rundir.COPY, b"made\n")
    wait_for_clock_tick(directory, directory.copied_at)  # files of the run must be newer than those of the copy


def restore_copy(directory: RunDirectory, record: Record) -> None:
    """Undo `collect_outputs`: restore the working copy of an ended run, with the files that the run made.

    Files of the snapshot that the run removed are restored too. The call can be repeated after an interruption:
    EARLIER exists until its files are moved, and until then the working copy must not be collected. Raises
    StorageError or LargeFiles.
    """
    path = directory.path
    if record.snapshot == "none":
        return
    with storage_errors("write", directory.file(WORKING_COPY)):
        if record.snapshot == "git":
            if is_folder_below(path, UNCHANGED):  # moving the files of the run out of it has failed
                merge_below(path, UNCHANGED, WORKING_COPY)
            if not is_folder_below(path, EARLIER):
                make_folders(path, WORKING_COPY)
                rename_below(path, WORKING_COPY, EARLIER)
            if not os.path.lexists(directory.file(WORKING_COPY)):
                defer_copy(directory)
            make_copy(directory, record)
            # Files that are moved after the copy was made count as changed by the run.
            merge_below(path, EARLIER, WORKING_COPY)
        if is_folder_below(path, OUTPUTS):
            make_folders(path, WORKING_COPY)
            restored = os.path.join(WORKING_COPY, OUTPUTS)
            try:
                rename_below(path, OUTPUTS, restored)  # one rename, so that an interruption cannot divide the outputs
            except OSError:
                merge_below(path, OUTPUTS, restored)  # the working copy contains outputs of the snapshot
