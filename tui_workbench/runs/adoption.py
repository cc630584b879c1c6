"""Runs that another machine submitted to a target of ours, brought into the history here.

What the target knows of a run is its folder there: the record, the log, the outputs. A run that is brought here is
followed like any other, and can be canceled; but what it holds over there is left for the machine that it belongs to.
"""

from __future__ import annotations

import json
import os

from tui_workbench.errors import ConfigurationError, WorkbenchError
from tui_workbench.model import RunState
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.rundir import FOLLOWED, RECORD, Record, RunDirectory, record_from_json, storage_error
from tui_workbench.targets.protocol import target_for
from tui_workbench.targets.staged import ProjectNames, StagedTarget

if TYPE_CHECKING:
    from tui_workbench.model import ComputeTarget
    from tui_workbench.project import Project


def adopt_runs(project: Project, name: str) -> list[str]:
    """Bring every run of the project that the target knows, and that is not here, into the history here.

    Returns their ids; each is active until a controller has seen how it stands. Raises ConfigurationError,
    TargetUnreachable or StorageError.
    """
    target = project.target(name)
    implementation = target_for(target)
    if not isinstance(implementation, StagedTarget):
        raise ConfigurationError(
            f"runs on {name} are kept here and nowhere else",
            remedy="Name a target on another machine.",
            file=target.path,
        )
    project.prepare_state()
    adopted = []
    try:
        known = implementation.known_runs(ProjectNames(project.name, project.root))
    finally:
        implementation.close()
    for run_id, text in known:
        if not os.path.exists(os.path.join(project.runs_directory, run_id)) and _adopt(project, target, run_id, text):
            adopted.append(run_id)
    return adopted


def _adopt(project: Project, target: ComputeTarget, run_id: str, text: bytes) -> bool:
    """Make the run's directory here; False when its record is not of our form."""
    from tui_workbench.runs.launch import BUILDING_PREFIX, discard, next_run_number

    path = os.path.join(project.runs_directory, run_id)
    building = os.path.join(project.runs_directory, f"{BUILDING_PREFIX}{run_id}-{os.getpid()}")
    try:
        record = record_from_json(json.loads(text), path)
    except (ValueError, KeyError, TypeError, WorkbenchError):
        return False
    try:
        os.mkdir(building)
    except OSError as error:
        raise storage_error("make", building, error) from error
    try:
        _fill(RunDirectory(building), _as_ours(record, target)._replace(run_number=next_run_number(project)))
        os.rename(building, path)
    except OSError as error:
        discard(building)
        raise storage_error("make", path, error) from error
    except BaseException:
        discard(building)
        raise
    return True


def _as_ours(record: Record, target: ComputeTarget) -> Record:
    """The record with the target as it is called and reached from here; there is no snapshot of it here."""
    spec = record.spec._replace(target=target)
    return record._replace(spec=spec, snapshot="none", commit_id=record.commit_id)


def _fill(directory: RunDirectory, record: Record) -> None:
    directory.write_record(record)
    with open(directory.file(FOLLOWED), "w", encoding="utf-8") as file:
        file.write(f"{RECORD} came from the target {record.spec.target.name}\n")
    directory.append_event("state", state=RunState.QUEUED)
    for step in ("prepare", "start"):
        directory.append_event("step", step=step, status="done")
    directory.append_event("state", state=RunState.RUNNING)
