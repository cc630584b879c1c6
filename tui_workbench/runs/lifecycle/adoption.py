"""Adopt runs that another machine submitted to a shared target, and take over imported runs.

A target has a folder for each run with its record, log and outputs. A run adopted from a target can be followed and
canceled, but its files on the target belong to the machine that submitted it.

The author of an imported run is not trusted, so the directory of the run must not determine which processes are ended,
or which steps are skipped. Only a run that has not started can be taken over. It starts as a new run, with new events
and a new lock.
"""

from __future__ import annotations

import contextlib
import os

from tui_workbench.core import trace
from tui_workbench.core.errors import ConfigurationError, ImportedRun, StorageError, WorkbenchError, storage_errors
from tui_workbench.core.files import FOLDER_MODE, open_folder, remove_below, write_below
from tui_workbench.core.json_values import parse_json
from tui_workbench.core.model import ComputeTarget, RunState
from tui_workbench.core.plaintext import visible
from tui_workbench.projects.project import Project
from tui_workbench.runs.store import ownership
from tui_workbench.runs.store.annotations import FILE as ANNOTATIONS
from tui_workbench.runs.store.annotations import LOCK as ANNOTATIONS_LOCK
from tui_workbench.runs.store.new_run import new_directory, publish
from tui_workbench.runs.store.record import record_from_json
from tui_workbench.runs.store.run_ids import next_run_number
from tui_workbench.runs.store.rundir import (
    CONTROLLER_LOCK,
    COPY,
    ENVIRONMENT,
    EVENTS,
    FOLLOWED,
    QUEUE_ENTRY,
    RECORD,
    WAITING,
    WORKING_COPY,
    RunDirectory,
)
from tui_workbench.targets.hosts.host_layout import run_folders
from tui_workbench.targets.registry import target_for


def adopt_runs(project: Project, name: str) -> list[str]:
    """Add the project's runs on a target to the history, and return their IDs.

    Known and deleted runs, runs on groups and runs with a malformed record are omitted. The added runs are active until
    a controller has checked them. Raises ConfigurationError, TargetUnreachable or StorageError.
    """
    target = project.target(name)
    implementation = target_for(target)
    if not implementation.keeps_runs:
        raise ConfigurationError(
            f"target {name!r} has no runs from other machines, because it is of type {target.type}",
            remedy="Choose a target that several machines use, such as one of type remote or slurm.",
            file=target.path,
        )
    project.prepare_state()
    adopted = []
    with contextlib.closing(implementation):
        folders = [run for run in run_folders(implementation.host) if run.project == project.name]
    for run in folders:
        # The names come from the target, which is not trusted, and become parts of paths here.
        is_name = run.run_id == os.path.basename(run.run_id) and not run.run_id.startswith(".")
        paths = [os.path.join(project.runs_directory, prefix + run.run_id) for prefix in ("", ownership.DELETED_PREFIX)]
        if is_name and not any(map(os.path.lexists, paths)) and _adopt(project, target, run.run_id, run.record):
            adopted.append(run.run_id)
    return adopted


def _adopt(project: Project, target: ComputeTarget, run_id: str, text: bytes) -> bool:
    """Create the run directory on this machine. Return False for a malformed record or a run on a group.

    Raises StorageError.
    """
    path = os.path.join(project.runs_directory, run_id)
    try:
        record = record_from_json(parse_json(text), path)
    except (ValueError, WorkbenchError):
        return False
    if record.spec.target.parts:
        return False  # the target has only a part of this run
    with storage_errors("create", path), new_directory(project, run_id) as (building, lock):
        # Use the target as configured here. The snapshot of the run is on the other machine.
        spec = record.spec._replace(target=target)
        record = record._replace(spec=spec, snapshot="none", run_number=next_run_number(project))
        building.write_record(record)
        write_below(building.path, FOLLOWED, f"{RECORD} came from the target {target.name}\n".encode())
        building.append_event("state", state=RunState.QUEUED)
        for step in ("prepare", "start"):
            building.append_event("step", step=step, status="done")
        building.append_event("state", state=RunState.RUNNING)
        publish(building, record)
    lock.release()
    return True


_RENEWED = (ENVIRONMENT, CONTROLLER_LOCK, EVENTS)

_FILES_BEFORE_START = frozenset(
    (*_RENEWED, RECORD, WORKING_COPY, QUEUE_ENTRY, WAITING, COPY, trace.FILE, ANNOTATIONS, ANNOTATIONS_LOCK)
)
"""Files that `submit` creates before a run starts, and files that a run may have at any time."""


def refuse_unless_new(directory: RunDirectory) -> None:
    """Raise ImportedRun if the run may have started, has unknown files, or has the ID of another run of this user.

    Containers, remote folders and processes are identified by the run ID, so canceling this run would end the other
    run. Raises StorageError if the directory cannot be read.
    """
    status = directory.status()
    with storage_errors("read", directory.path):
        unknown = set(os.listdir(directory.path)) - _FILES_BEFORE_START
    rerun = f"Run it again as a new run: `workbench-tui experiment rerun -r {directory.run_id}`."
    if unknown or os.path.islink(directory.file(WORKING_COPY)):
        foreign = sorted(unknown)[:3] or [WORKING_COPY]  # if no file is unknown, the working copy is a symbolic link
        names = ", ".join(map(visible, foreign))
        raise ImportedRun(
            f"cannot take over run {directory.run_id}: its directory contains files or links that `submit` does not "
            f"create ({names})",
            remedy=rerun,
        )
    if status.state != RunState.QUEUED or status.begun or status.ending is not None:
        raise ImportedRun(f"run {directory.run_id} may have started already and cannot be taken over", remedy=rerun)
    if ownership.has_other(directory.file(RECORD)):
        raise ImportedRun(
            f"cannot take over run {directory.run_id}: another of your runs has the same ID", remedy=rerun
        )


def take_over_imported(directory: RunDirectory) -> None:
    """Take over an imported run that has not started; see `Runs.take_over_imported`."""
    directory.read_record()
    refuse_unless_new(directory)
    try:
        _close_to_others(directory)
        for name in _RENEWED:
            remove_below(directory.path, name)
        directory.append_event("state", state=RunState.QUEUED)
        ownership.register(directory.file(RECORD))
    except OSError as error:
        raise StorageError(
            f"cannot take over the run: {error.strerror or error}",
            remedy="If the project is not yours, copy it, and take over the run in the copy. "
            "Otherwise, check the disk space and the permissions of this folder.",
            file=directory.path,
        ) from error


def _close_to_others(directory: RunDirectory) -> None:
    """Remove the permissions of other users on the run directory. Raises OSError."""
    folder = open_folder(directory.path)
    try:
        if os.fstat(folder).st_uid != os.geteuid():
            raise PermissionError("its directory does not belong to you")
        os.fchmod(folder, FOLDER_MODE)
    finally:
        os.close(folder)
