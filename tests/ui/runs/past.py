"""Directories of ended runs, written without running anything."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING

from tui_workbench.core.model import ComputeTarget, Plan, RunConfiguration, RunSpec, RunState, Step
from tui_workbench.runs.store.rundir import Record, RunDirectory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tui_workbench.projects.project import Project

EPOCH = 1_700_000_000.0


def past_run(
    project: Project,
    number: int,
    *,
    script: str = "train.py",
    target: str = "local",
    arguments: Sequence[str] = (),
    state: str = RunState.COMPLETED,
    exit_code: int | None = None,
    seconds: float = 60.0,
    curves: Mapping[str, Sequence[float]] = {},
    commit: str = "",
    group: str = "",
    family: str = "",
    framework: str = "Python",
    output: bytes = b"",
    files: Mapping[str, bytes] = {},
) -> str:
    """Write an ended run with metrics and files (relative to the run), and return its ID."""
    run_id = f"{project.name}_{number:013d}"
    path = os.path.join(project.runs_directory, run_id)
    os.makedirs(path)
    created = EPOCH + number * 100
    configuration = RunConfiguration(target, f"{target}.runconfig", target, framework=framework)
    configuration = configuration._replace(tracked_run=bool(commit))
    compute = ComputeTarget(target, f"{target}.compute", "local")
    spec = RunSpec(run_id, path, project.root, project.name, path, script, tuple(arguments), configuration, compute)
    steps = (Step("snapshot", "Snapshot of the project"), Step("start", "Start", ("python", script, *arguments)))
    plan = Plan(target, "local", "python", steps)
    snapshot = "git" if commit else "none"
    record = Record(run_id, number, created, "ada", spec, plan, commit, snapshot)._replace(group=group, family=family)
    RunDirectory(path).write_record(record)
    events: list[dict[str, object]] = [
        {"time": created, "event": "state", "state": RunState.QUEUED},
        {"time": created + 0.5, "event": "step", "step": "snapshot", "status": "begun"},
        {"time": created + 0.9, "event": "step", "step": "snapshot", "status": "done"},
        {"time": created + 1, "event": "state", "state": RunState.RUNNING},
        {"time": created + 1 + seconds, "event": "state", "state": state, "final": True},
    ]
    if exit_code is not None:
        events[-1]["exit_code"] = exit_code
    _write(path, "events.jsonl", "".join(json.dumps(event) + "\n" for event in events).encode())
    if curves:
        _write(path, "metrics.jsonl", _logged(curves, created + 1))
    _write(path, "output.log", output)
    for name, data in files.items():
        _write(path, name, data)
    return run_id


def _logged(curves: Mapping[str, Sequence[float]], start: float) -> bytes:
    """Return the lines that `workbench.log` would have written."""
    lines = []
    for name, values in curves.items():
        for step, value in enumerate(values):
            lines.append(json.dumps({"name": name, "step": step, "value": value, "time": start + step}))
    return "".join(f"{line}\n" for line in lines).encode()


def _write(folder: str, name: str, data: bytes) -> None:
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def falling(start: float, points: int = 20, pace: float = 6.0) -> list[float]:
    """Return the values of a falling loss."""
    return [start * math.exp(-step / pace) + 0.01 for step in range(points)]
