"""Submit runs that may have to wait: for another run, or for a limit of their target or sweep."""

from __future__ import annotations

from tui_workbench.core.errors import UsageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.lifecycle import queueing
from tui_workbench.runs.lifecycle.dependencies import ANY, CONDITIONS, FAILED, MET_BY, OK
from tui_workbench.runs.lifecycle.limits import Dependency, label_of
from tui_workbench.runs.store.index import RunIndex, find_run
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory


def parse_dependency(project: Project, text: str) -> Dependency:
    """Parse RUN[:CONDITION]. RUN is the ID or number of a run of the project.

    Raises RunNotFound, or UsageError if the run is imported, or if the condition is unknown or can no longer be met.
    """
    name, colon, given = text.partition(":")
    if colon and given not in CONDITIONS:
        raise UsageError(f"unknown condition {given!r}", remedy=f"Write RUN:{OK}, RUN:{ANY} or RUN:{FAILED}.")
    directory = find_run(project, name)
    record, run = directory.read_record(), directory.run()
    if run.imported:
        raise UsageError(
            f"cannot wait for run {run.run_id}: you did not submit it on this machine",
            remedy="Name one of your own runs. If the run has not started, you can take it over: "
            f"`workbench-tui experiment resume -r {run.run_id}`.",
        )
    condition = given or OK
    if not run.is_active and run.state not in MET_BY[condition]:
        raise UsageError(
            f"the new run would never start: it waits until run {run.run_id} {CONDITIONS[condition]}, but that run has "
            f"already ended ({run.state})",
            remedy=f"Use `--after {name}:{ANY}`, or omit `--after`.",
        )
    label = label_of(record.spec, record.run_number)
    return Dependency(directory.path, condition, label, f"after {label} {CONDITIONS[condition]}")


def enqueue(project: Project, directory: RunDirectory, lock: ControllerLock) -> bool:
    """Queue a new run. Return True if the caller must start it now; otherwise, its lock is released.

    Active runs of the project on the same target count, even if no limit applied when they started. Raises
    StorageError.
    """
    with RunIndex(project) as index:
        active = index.active()
    return queueing.enter(directory, lock, active)
