"""Resume or cancel a run from a process other than its controller.

A run has no controller if the controller was killed or the machine was restarted. `cancel` writes a request to the run
directory. Then the run's controller, a new controller or this process ends the run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from tui_workbench.config.schema import retry
from tui_workbench.core.causes import plain, without_attempt
from tui_workbench.core.errors import ImportedRun, UsageError, WorkbenchError, storage_errors
from tui_workbench.core.files import append_below, remove_below
from tui_workbench.core.masking import find_mask
from tui_workbench.core.model import Run, RunState
from tui_workbench.projects.project import Project, state_of_run
from tui_workbench.runs.index.index import RunIndex
from tui_workbench.runs.lifecycle import queueing
from tui_workbench.runs.lifecycle.agent_ends import end_run_of_agent
from tui_workbench.runs.lifecycle.controller import Controller
from tui_workbench.runs.lifecycle.handover import hand_over
from tui_workbench.runs.lifecycle.retrying import add_attempt
from tui_workbench.runs.lifecycle.starting import has_ended, wake
from tui_workbench.runs.lifecycle.stored_environment import save_environment
from tui_workbench.runs.notify.buses import remember_bus
from tui_workbench.runs.store import ownership
from tui_workbench.runs.store.annotations import notify_index
from tui_workbench.runs.store.new_run import remove_unfinished
from tui_workbench.runs.store.rundir import (
    CANCEL_REQUEST,
    FOLLOWED,
    WAITING,
    ControllerLock,
    Ending,
    Record,
    RunDirectory,
)
from tui_workbench.runs.sweeps.sweep import resume_unfinished
from tui_workbench.targets.registry import target_for

POLL_SECONDS = 0.02
RELEASE_SECONDS = 1.0  # time for the system to end the threads of a killed controller
ENDING_SECONDS = 5.0  # time for the controller of an ended run to end


def resume_all(project: Project) -> list[str]:
    """Resume the runs and sweeps of a project; see `Runs.resume`."""
    remove_unfinished(project)
    ownership.prune(project.runs_directory)
    resume_unfinished(project)
    with RunIndex(project) as index:
        return resume_runs(project, index.active())


def resume_runs(project: Project, run_ids: Iterable[str]) -> list[str]:
    """Start controllers for runs without one. If the script of a run has ended, this process completes the run.

    Return the IDs of the runs that had no controller, and of the queued runs that have started.
    """
    directories = [RunDirectory(os.path.join(project.runs_directory, run_id)) for run_id in run_ids]
    resumed = _resume_waiting(project, directories)
    for directory in directories:
        try:
            if directory.run_id not in resumed and take_over(directory):
                resumed.append(directory.run_id)
        except WorkbenchError:
            # The run stays unchanged: it is not this user's own, it was removed, or the disk is full.
            continue
    return resumed


def take_over(directory: RunDirectory) -> bool:
    """Start a controller for a run that has none, or start a queued run if the limits allow it.

    If the script has ended, this process completes the run. Return True if the run had no controller, or if the queued
    run was started. Raises ImportedRun, and WorkbenchError if no controller can be started.
    """
    spec = directory.own_record().spec
    if directory.is_waiting:
        return bool(_resume_waiting(Project(spec.project_root), [directory]))
    lock = _acquire(directory)
    if lock is None:
        return False
    with lock:
        target = target_for(spec.target)
        # On a target with a watcher, the watcher ends the run. A run with attempts may have to start again.
        is_last = not (target.drives_together or spec.run_configuration.retry or directory.attempts())
        if directory.status().end or (target.has_ended(spec) and is_last):
            finish_here(directory, lock)
            return True
        return hand_over(directory, lock, target)


def _acquire(directory: RunDirectory) -> ControllerLock | None:
    """Lock a run, or return None. If its controller was just killed, wait until the system has released the lock."""
    deadline = time.monotonic() + RELEASE_SECONDS
    while (lock := ControllerLock.acquire(directory)) is None:
        if not has_ended(ControllerLock.holder(directory)) or time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
    return lock


def start_again(directory: RunDirectory) -> None:
    """Start another attempt of an ended run of this user, in its working copy. Return when it has a controller.

    Raises UsageError or ConfigurationError if the run cannot be started again, ImportedRun, StorageError, and
    WorkbenchError if no controller can be started.
    """
    if not directory.is_own:
        directory.read_record()
        raise ImportedRun(
            f"run {directory.run_id} was not submitted by you on this machine, so it cannot be started again",
            remedy=f"Run it again as a new run: `workbench-tui experiment rerun -r {directory.run_id}`.",
        )
    record = directory.own_record()
    with lock_of_ended(directory) as lock:
        run, spec = directory.run(), record.spec
        _refuse_to_start_again(run, record)
        target = target_for(spec.target)
        target.plan(spec._replace(attempt=2))  # raises an error if the target cannot execute the run again
        save_environment(directory, os.environ)
        remember_bus()
        remove_below(directory.path, CANCEL_REQUEST)
        causes = without_attempt(directory.status().causes) or plain(run.state)
        ending = Ending(run.state, causes, run.exit_code, run.end)
        add_attempt(directory, ending, anew=True)
        if directory.is_limited:
            with storage_errors("write", directory.file(WAITING)):
                append_below(directory.path, WAITING, b"")
        notify_index(state_of_run(directory.path), directory.run_id)
        if not directory.is_waiting:
            hand_over(directory, lock, target)
    if directory.is_waiting:
        queueing.resume([directory])


def lock_of_ended(directory: RunDirectory) -> ControllerLock:
    """Lock an ended run, whose controller may hold the lock for a moment after it has recorded the end.

    Raises UsageError if another process still holds the lock after ENDING_SECONDS.
    """
    deadline = time.monotonic() + ENDING_SECONDS
    while True:
        lock = ControllerLock.acquire(directory)
        if lock is not None:
            return lock
        if time.monotonic() > deadline:
            raise UsageError(
                f"another process is working on run {directory.run_id}",
                remedy="Wait until that process has finished, then try again.",
            )
        time.sleep(POLL_SECONDS)


def _refuse_to_start_again(run: Run, record: Record) -> None:
    """Raise UsageError or ConfigurationError if an ended run cannot be started again."""
    spec, rerun = record.spec, f"Run it again as a new run: `workbench-tui experiment rerun -r {run.run_id}`."
    if run.is_active:
        raise UsageError(f"run {run.run_id} is active and cannot be started again", remedy="Wait until it ends.")
    if run.state == RunState.COMPLETED:
        raise UsageError(f"run {run.run_id} has completed and cannot be started again", remedy=rerun)
    if not spec.target.kind.reads(retry.SECTION) or os.path.lexists(os.path.join(run.directory, FOLLOWED)):
        raise UsageError(
            f"run {run.run_id} cannot be started again on {spec.target.name}: targets of type {spec.target.type} do "
            "not support this, or another machine submitted the run",
            remedy=rerun,
        )
    if run.lacks_outputs:
        collect = f"Fetch them first: `workbench-tui experiment collect -r {run.run_id}`."
        raise UsageError(f"some files of run {run.run_id} are still on {spec.target.name}", remedy=collect)
    if record.snapshot == "none" and spec.target.kind.is_remote:
        reason = "because it was not tracked and its files were on another machine"
        raise UsageError(f"run {run.run_id} cannot be started again, {reason}", remedy=rerun)
    if masked := find_mask(spec.arguments):
        raise UsageError(
            f"the secret of the argument {masked} is no longer stored", remedy="Submit a new run with the secret."
        )


def _resume_waiting(project: Project, directories: Iterable[RunDirectory]) -> list[str]:
    """Add waiting runs that are missing from the queue, and return the IDs of the runs that have started."""
    waiting = [directory for directory in directories if directory.is_waiting and directory.is_own]
    if not waiting:
        return []
    resume_unfinished(project)
    try:
        return queueing.resume(waiting)
    except WorkbenchError:
        return []  # the queue is not usable now, and the runs continue to wait


PATIENCE_SECONDS = 60.0  # seconds after `grace` for which `cancel` waits for an unreachable target


def cancel(directory: RunDirectory, grace: float, patience: float = PATIENCE_SECONDS) -> Run:
    """Cancel a run; see `Runs.cancel`.

    Raises WorkbenchError if the run has not ended after `grace` + `patience` seconds; the cancel request is kept.
    """
    run = directory.run()
    if not (run.is_active or run.imported):
        return run
    if run.imported and end_run_of_agent(directory.path, grace):
        return directory.run()
    target = target_for(directory.own_record().spec.target)
    directory.request_cancel(grace)
    deadline = time.monotonic() + grace + patience
    while time.monotonic() < deadline:
        lock = ControllerLock.acquire(directory) if wake(directory) == 0 else None
        if lock is not None and not (directory.is_waiting or target.starts_at_once):
            hand_over(directory, lock, target)
        elif lock is not None:
            # The cancel request is recorded, so this thread can end the run itself.
            finish_here(directory, lock)
        run = directory.run()
        if not run.is_active:
            return run
        time.sleep(POLL_SECONDS)
    raise WorkbenchError(
        f"run {run.run_id} has not ended yet ({(run.reason or run.state).rstrip('.')})",
        remedy="Wait: the cancel request is kept, and the run ends as soon as its target answers.",
    )


def finish_here(directory: RunDirectory, lock: ControllerLock) -> None:
    """Complete a run that has ended or was canceled, in this process, and release the lock. Raises StorageError."""
    controller = Controller(directory)
    with lock:
        controller.finish()
    controller.keep_copy()
    queueing.leave(directory)
    controller.finish_late()
