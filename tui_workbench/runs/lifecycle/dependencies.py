"""Start runs after another run of the project has ended: `experiment submit --after RUN[:CONDITION]`.

Such a run waits in the queue. Its `Demand` contains the path of the other run, whose directory lists the runs that
depend on it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tui_workbench.core.files import LARGEST, read_below
from tui_workbench.core.model import Run, RunState
from tui_workbench.runs.lifecycle.limits import Demand, read_demand
from tui_workbench.runs.store.rundir import DEPENDENTS, RunDirectory

OK, ANY, FAILED = "ok", "any", "failed"
CONDITIONS = {OK: "completes", ANY: "ends", FAILED: "fails"}
"""By condition, the verb for the event that the queued run waits for."""

MET_BY = {OK: {RunState.COMPLETED}, ANY: RunState.TERMINAL, FAILED: {RunState.FAILED}}


def obstacle(demand: Demand) -> str:
    """Return the reason why a queued run can never start because of the run that it depends on, or ""."""
    if not demand.after:
        return ""
    directory = RunDirectory(demand.after)
    if not os.path.isdir(directory.path):
        return f"{demand.after_label} was removed"
    status = directory.status()
    is_unmet = bool(status.end) and status.state not in MET_BY[demand.after_condition]
    return f"{demand.after_label} has ended ({status.state})" if is_unmet else ""


def reason_to_wait(demand: Demand) -> str:
    """Return the reason to wait if the run that a queued run depends on is still active, or ""."""
    if not demand.after or RunDirectory(demand.after).status().end:
        return ""
    return f"starts after {demand.after_label} {CONDITIONS[demand.after_condition]}"


def dependents_of(directory: RunDirectory) -> list[Run]:
    """Return the queued runs that could not start if this run were canceled, directly or through other runs."""
    found = []
    for other, demand in _waiting(directory):
        if demand.after_condition != ANY:
            found += [other.run(), *dependents_of(other)]
    return found


def waiting_for(directory: RunDirectory) -> list[RunDirectory]:
    """Return the queued runs that depend on this run, even if this run has ended."""
    return [other for other, _ in _waiting(directory)]


def _waiting(directory: RunDirectory) -> Iterator[tuple[RunDirectory, Demand]]:
    for run_id in _listed(directory):
        other = RunDirectory(os.path.join(os.path.dirname(directory.path), run_id))
        with contextlib.suppress(OSError, ValueError, TypeError):
            if other.is_waiting and (demand := read_demand(other)).after == directory.path:
                yield other, demand


def _listed(directory: RunDirectory) -> list[str]:
    try:
        names = read_below(directory.path, DEPENDENTS, LARGEST).decode("utf-8", "replace").split("\n")
    except OSError:
        return []
    return [name for name in dict.fromkeys(names) if name and name == os.path.basename(name)]
