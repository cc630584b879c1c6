"""End a run of an agent with the facts of the user's registry, whatever has happened to its files."""

from __future__ import annotations

import contextlib
import os
import tempfile

from tui_workbench.config.schema.retry import retry_of
from tui_workbench.core.errors import storage_errors
from tui_workbench.core.model import RunSpec
from tui_workbench.runs.store import agent_runs
from tui_workbench.runs.store.attempts import attempt_number
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.targets.registry import target_for


def end_run_of_agent(run_directory: str, grace: float) -> bool:
    """End all processes of a run, and note its end. Return False if no agent submitted the run.

    Raises TargetUnreachable and other WorkbenchErrors if the processes could not be ended.
    """
    spec = agent_runs.find(run_directory)
    if spec is None:
        return False
    is_here = [part.target.kind.runs_here for part in spec.parts]
    if any(is_here):
        _stop(spec, grace)  # processes on this machine are found by the path of the directory
    if not all(is_here):
        # Files in the directory could say that the run has ended, and the directory may be missing.
        with storage_errors("create", agent_runs.folder()), tempfile.TemporaryDirectory(dir=agent_runs.folder()) as top:
            empty = os.path.join(top, spec.run_id)
            os.mkdir(empty)
            _stop(spec._replace(run_directory=empty), grace)
    agent_runs.note_end(run_directory)
    return True


def _stop(spec: RunSpec, grace: float) -> None:
    attempts = 1
    if spec.target.kind.has_scheduler:
        # Each attempt is a job with another name. The user may have started the run more often than `Retry` says. The
        # number comes from the files of the run, so it is limited.
        recorded = min(attempt_number(RunDirectory(spec.run_directory)), 100)
        attempts = max(1 + retry_of(spec.run_configuration).times, recorded)
    target = target_for(spec.target)
    with contextlib.closing(target):
        for attempt in range(1, attempts + 1):
            target.stop(spec._replace(attempt=attempt), grace=grace)
