"""Acting on a run from another process than its controller: give it a controller that it lacks, or cancel it.

A run lacks one after its own was killed or the machine was restarted. To cancel, the wish is written down, and the
controller, or this process, ends the run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import Run
from tui_workbench.projects.project import Project
from tui_workbench.runs.lifecycle import queueing
from tui_workbench.runs.lifecycle.building import remove_unfinished
from tui_workbench.runs.lifecycle.controller import Controller
from tui_workbench.runs.lifecycle.starting import detach, wake
from tui_workbench.runs.store import ownership
from tui_workbench.runs.store.index import RunIndex
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory
from tui_workbench.runs.sweeps.sweep import resume_unfinished
from tui_workbench.targets.base.registry import target_for


def resume_all(project: Project) -> list[str]:
    """Give each of this user's own active runs a controller, and remove what killed submits left half made.

    Returns the ids of the runs that had none.
    """
    remove_unfinished(project)
    ownership.prune(project.runs_directory)
    resume_unfinished(project)
    with RunIndex(project) as index:
        return resume_runs(project, index.active())


def resume_runs(project: Project, run_ids: Iterable[str]) -> list[str]:
    """Give the runs that have no controller one; those whose script is over are concluded here and now.

    Returns the ids of those that had none.
    """
    directories = [RunDirectory(os.path.join(project.runs_directory, run_id)) for run_id in run_ids]
    resumed = _resume_waiting(project, directories)
    for directory in directories:
        try:
            if directory.run_id not in resumed and take_over(project, directory):
                resumed.append(directory.run_id)
        except WorkbenchError:
            # Not ours, gone meanwhile, or no space: it stays as it is, and its record says what is known.
            continue
    return resumed


def take_over(project: Project, directory: RunDirectory) -> bool:
    """See to it that a run has a controller; True when it had none.

    Raises ImportedRun, and WorkbenchError when it has none and can have none.
    """
    spec = directory.own_record().spec
    if directory.is_waiting:
        return bool(_resume_waiting(project, [directory]))
    lock = ControllerLock.acquire(directory)
    if lock is None:
        return False
    with lock:
        if directory.status().end or target_for(spec.target).has_ended(spec):
            finish_here(directory, lock)
        else:
            detach(directory, lock)
    return True


def _resume_waiting(project: Project, directories: Iterable[RunDirectory]) -> list[str]:
    """See to it that the runs that wait for their turn are in line; the ids of those whose turn has come."""
    waiting = [directory for directory in directories if directory.is_waiting and directory.is_own]
    if not waiting:
        return []
    resume_unfinished(project)
    try:
        return queueing.resume(waiting)
    except WorkbenchError:
        return []  # its folder cannot be used now: they wait on


POLL_SECONDS = 0.02
PATIENCE_SECONDS = 60.0
"""How long `cancel` waits, beyond the grace, for a controller whose target may be out of reach."""


def cancel(directory: RunDirectory, grace: float, patience: float = PATIENCE_SECONDS) -> Run:
    """End a run and wait until nothing of it is left; one that has ended is returned unchanged.

    `grace` is the seconds between asking the script to end and making it. Raises WorkbenchError when the run has not
    ended `patience` seconds after that: the wish stands.
    """
    run = directory.run()
    if not (run.is_active or run.imported):
        return run
    target = target_for(directory.own_record().spec.target)
    directory.request_cancel(grace)
    deadline = time.monotonic() + grace + patience
    while time.monotonic() < deadline:
        lock = ControllerLock.acquire(directory) if wake(directory) == 0 else None
        if lock is not None and not (directory.is_waiting or target.starts_at_once):
            detach(directory, lock)
        elif lock is not None:
            # With the wish to cancel on record there is nothing to wait for: this thread ends the run itself.
            finish_here(directory, lock)
        run = directory.run()
        if not run.is_active:
            return run
        time.sleep(POLL_SECONDS)
    raise WorkbenchError(
        f"run {run.run_id} has not ended yet: {run.reason or run.state}",
        remedy="It ends as soon as its target answers; you need not cancel it again.",
    )


def finish_here(directory: RunDirectory, lock: ControllerLock) -> None:
    """Bring a run that is over, or is to end, to its end in this process. Releases the lock. Raises StorageError."""
    with lock:
        Controller(directory).finish()
    queueing.leave(directory)
