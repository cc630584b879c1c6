"""Make the working copy of a run when the run starts, and restore it when the run starts again.

The submitter of a run that may have to wait makes no copy, but a marker that the copy must still be made.
"""

from __future__ import annotations

import os
import time

from tui_workbench.config.schema.data_references import data_in_project
from tui_workbench.core.errors import storage_errors
from tui_workbench.core.files import is_folder_below, make_folders, merge_below, open_below, rename_below
from tui_workbench.projects.project import state_of_run
from tui_workbench.runs.store.new_run import discard
from tui_workbench.runs.store.rundir import (
    CONTROLLER_LOCK,
    COPY,
    EARLIER,
    OUTPUTS,
    UNCHANGED,
    WORKING_COPY,
    Record,
    RunDirectory,
)


def defer_copy(directory: RunDirectory) -> None:
    """Mark that the working copy must be made when the run starts. Raises StorageError."""
    directory.write(COPY, b"")


def wait_for_clock_tick(directory: RunDirectory, moment: int) -> None:
    """Wait until new files get a later time than `moment`, in nanoseconds. Raises OSError.

    The clock of a file system ticks every few milliseconds, or on old file systems every one or two seconds.
    """
    with open(open_below(directory.path, CONTROLLER_LOCK, os.O_RDWR), "rb") as clock:
        os.utime(clock.fileno())
        while os.fstat(clock.fileno()).st_mtime_ns <= moment:
            time.sleep(0.0005)
            os.utime(clock.fileno())


def make_copy(directory: RunDirectory, record: Record) -> None:
    """Create a deferred working copy, if it is not complete. Raises StorageError or LargeFiles."""
    try:
        if os.stat(directory.file(COPY)).st_size:
            return  # the copy is complete
    except OSError:
        return  # the submitter made the copy, or the run has none
    from tui_workbench.runs.snapshots.snapshot import SnapshotStore

    root = record.spec.project_root
    data = data_in_project(root, record.spec.run_configuration.data_references)
    store = SnapshotStore(root, state_of_run(directory.path), data)
    discard(directory.file(WORKING_COPY))
    store.check_out(record.commit_id, directory.file(WORKING_COPY))
    directory.write(COPY, b"made\n")
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
