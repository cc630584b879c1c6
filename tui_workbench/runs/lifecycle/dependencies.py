"""Start runs after another run of the project has ended: `experiment submit --after RUN[:CONDITION]`.

Such a run waits in the queue. Its `Demand` contains the path of the other run, whose directory lists the runs that
depend on it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tui_workbench.core.causes import DEPENDENCY_ENDED, DEPENDENCY_REMOVED, Cause
from tui_workbench.core.errors import UsageError
from tui_workbench.core.files import LARGEST, read_below
from tui_workbench.core.model import Run, RunState
from tui_workbench.projects.project import Project
from tui_workbench.runs.index.index import find_run
from tui_workbench.runs.lifecycle.limits import Demand, Dependency, label_of, read_demand
from tui_workbench.runs.store.rundir import DEPENDENTS, RunDirectory

OK, ANY, FAILED = "ok", "any", "failed"
CONDITIONS = {OK: "completes", ANY: "ends", FAILED: "fails"}
"""By condition, the verb for the event that the queued run waits for."""

MET_BY = {OK: {RunState.COMPLETED}, ANY: RunState.TERMINAL, FAILED: {RunState.FAILED}}


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


def obstacle(demand: Demand) -> Cause | None:
    """Return why a queued run can never start because of the run that it depends on, or None if it can."""
    if not demand.after:
        return None
    directory = RunDirectory(demand.after)
    if not os.path.isdir(directory.path):
        return Cause(DEPENDENCY_REMOVED, {"run": demand.after_label})
    status = directory.status()
    is_unmet = bool(status.end) and status.state not in MET_BY[demand.after_condition]
    return Cause(DEPENDENCY_ENDED, {"run": demand.after_label, "state": status.state}) if is_unmet else None


def reason_to_wait(demand: Demand) -> str:
    """Return the reason to wait if the run that a queued run depends on is still active, or ""."""
    if not demand.after or RunDirectory(demand.after).status().end:
        return ""
    return f"starts after {demand.after_label} {CONDITIONS[demand.after_condition]}"


def dependents_of(directory: RunDirectory) -> list[Run]:
    """Return the queued runs that could not start if this run were canceled, directly or through other runs."""
    dependents = []
    for other, demand in _waiting(directory):
        if demand.after_condition != ANY:
            dependents += [other.run(), *dependents_of(other)]
    return dependents


def waiting_for(directory: RunDirectory) -> list[RunDirectory]:
    """Return the queued runs that depend on this run, even if this run has ended."""
    return [other for other, _ in _waiting(directory)]


def _waiting(directory: RunDirectory) -> Iterator[tuple[RunDirectory, Demand]]:
    try:
        names = read_below(directory.path, DEPENDENTS, LARGEST).decode("utf-8", "replace").split("\n")
    except OSError:
        return
    for name in dict.fromkeys(names):
        # The script of a run can write the files in its directory, so check the name and the demand of the other run.
        if name and name == os.path.basename(name):
            other = RunDirectory(os.path.join(os.path.dirname(directory.path), name))
            with contextlib.suppress(OSError, ValueError, TypeError):
                if other.is_waiting and (demand := read_demand(other)).after == directory.path:
                    yield other, demand
