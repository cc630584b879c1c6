"""What an active run does at the moment, and telling it not to wait."""

from __future__ import annotations

import contextlib
import os

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.progress import PROGRESS, read_progress
from tui_workbench.runs.rundir import ControllerLock, RunDirectory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tui_workbench.model import Run


def current_step(directory: RunDirectory) -> str:
    """The name of the innermost step at work; "" when none is, or none was recorded."""
    at_work: dict[str, None] = {}
    for event in directory.events():
        if event["event"] != "step":
            continue
        step = str(event.get("step"))
        if event.get("status") == "begun":
            at_work[step] = None
        else:
            at_work.pop(step, None)
    return next(reversed(at_work), "")


def try_now(directory: RunDirectory) -> None:
    """Let a run whose target is out of reach try it at once, and not when its patience ends."""
    from tui_workbench.runs.controller import CANCEL_SIGNAL

    holder = ControllerLock.holder(directory)
    if holder > 0:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(holder, CANCEL_SIGNAL)


def steps_of(runs: Iterable[Run]) -> dict[str, str]:
    """The current step of each run that is active on a target where there are steps, by run id.

    With how far it is where that is known: `sync`, `sync 63 %`.
    """
    found = {run.run_id: _step_and_percent(RunDirectory(run.directory)) for run in runs if run.is_active}
    return {run_id: step for run_id, step in found.items() if step}


def _step_and_percent(directory: RunDirectory) -> str:
    step = current_step(directory)
    if not step or not os.path.exists(directory.file(PROGRESS)):
        return step
    progress = read_progress(directory)
    return f"{step} {progress.percent.strip()}".rstrip() if progress is not None else step
