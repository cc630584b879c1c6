"""Convert the record of a run to the content of `run.json`, and back."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tui_workbench.config.secret_values import known_secrets
from tui_workbench.core.json_values import check_type, read_as, shown
from tui_workbench.core.masking import (
    mask_command,
    mask_plan,
    mask_tree,
    mask_values,
    mask_values_in,
    mask_variables,
    mask_words,
)
from tui_workbench.core.model import ComputeTarget, Plan, Run, RunConfiguration, RunSpec, Step, SweepTask
from tui_workbench.core.trace import agent_name
from tui_workbench.projects.project import root_of_state, state_of_run
from tui_workbench.runs.store.ownership import DELETED_PREFIX
from tui_workbench.runs.store.status import END_OF_TIME

SCHEMA = 1  # version of run.json and events.jsonl; increase it if old readers would misread the new format

WORKING_COPY = "work"
_LARGEST = 1 << 63


class Record(NamedTuple):
    """The content of `run.json`: the request of a run and its plan at the time of submission."""

    run_id: str
    run_number: int
    created: float
    user_id: str
    spec: RunSpec
    plan: Plan
    commit_id: str
    snapshot: str  # git, copy (no git on this machine) or none (untracked or adopted)
    origin: str = ""  # the run that this run repeats
    group: str = ""  # the sweep of the run
    member: int = 0  # number in the sweep, from 1
    family: str = ""  # the runs of the sweep that differ only in the seed
    variables: tuple[str, ...] = ()  # NAME=VALUE of the variables that this run has in addition to EnvironmentVariables
    agent: str = ""  # the coding agent that submitted the run


def record_to_json(record: Record) -> dict[str, Any]:
    """Convert the record to JSON, with secrets masked."""
    spec = record.spec
    secrets = known_secrets(spec.project_root, spec.run_configuration.environment_variables)
    configuration = spec.run_configuration._replace(
        environment_variables=mask_variables(spec.run_configuration.environment_variables),
        argument_vector=masked_arguments(spec.run_configuration.argument_vector, spec),
    )
    extras = {"origin": record.origin, "group": record.group, "member": record.member, "family": record.family,
              "gpu_check_due": spec.gpu_check_due, "keep_outputs": spec.keep_outputs, "sweep": spec.sweep,
              "variables": mask_words(record.variables), "agent": record.agent,
              "starts_jupyter": spec.starts_jupyter}  # fmt: skip
    return {
        "schema": SCHEMA,
        "run_id": record.run_id,
        "run_number": record.run_number,
        "created": record.created,
        "user_id": record.user_id,
        "project": spec.project_name,
        "project_root": spec.project_root,
        "working_directory": spec.working_directory,
        "script": spec.script,
        "arguments": masked_arguments(spec.arguments, spec),
        "commit_id": record.commit_id,
        "snapshot": record.snapshot,
        **{key: value for key, value in extras.items() if value},
        "run_configuration": _without_problem(configuration._asdict(), secrets),
        "target": _masked_target(spec.target),
        "interpreter": record.plan.interpreter,
        "plan": [mask_values_in(step._asdict(), secrets) for step in mask_plan(record.plan).steps],
    }


def masked_arguments(arguments: Sequence[str], spec: RunSpec) -> tuple[str, ...]:
    """Return arguments as they are recorded: with secrets masked, and the values of the run's secret variables."""
    secrets = known_secrets(spec.project_root, spec.run_configuration.environment_variables)
    return tuple(mask_values(word, secrets) for word in mask_words(arguments))


def _without_problem(values: dict[str, Any], secrets: Sequence[str] = ()) -> dict[str, Any]:
    # A run never starts from a file with a `problem`.
    kept = {key: value for key, value in values.items() if key != "problem"}
    return {**kept, "values": mask_values_in(mask_tree(values["values"]), secrets)}


def _masked_target(target: ComputeTarget) -> dict[str, Any]:
    setup = tuple(map(mask_command, target.setup))
    stored = _without_problem(target._replace(setup=setup)._asdict())
    if "setup" in stored["values"]:
        stored["values"] = {**stored["values"], "setup": setup}
    return {**stored, "parts": tuple(map(_masked_target, target.parts))}


class _Stored(NamedTuple):
    """The keys of `run.json` that are read."""

    schema: int
    run_id: str
    run_number: int
    created: float
    user_id: str
    project: str
    script: str
    arguments: tuple[str, ...]
    commit_id: str
    snapshot: str
    run_configuration: Mapping[str, Any]
    target: ComputeTarget
    interpreter: str
    plan: tuple[Step, ...]
    origin: str = ""
    group: str = ""
    member: int = 0
    family: str = ""
    gpu_check_due: bool = False
    keep_outputs: tuple[str, ...] = ()
    sweep: tuple[Any, ...] = ()
    variables: tuple[str, ...] = ()
    agent: Any = ""
    starts_jupyter: bool = False


class _Retry(NamedTuple):
    times: int = 0
    on: tuple[str, ...] = ()
    delay: int = 0


def _configuration(stored: Mapping[str, Any]) -> RunConfiguration:
    """Parse the run configuration. Raises ValueError."""
    references = stored.get("data_references", {})
    if isinstance(references, list):  # earlier versions stored a list of paths
        paths = check_type(tuple[str, ...], references, "run_configuration.data_references")
        stored = {**stored, "data_references": {path: path for path in paths}}
    # Earlier versions stored more fields.
    configuration = read_as(RunConfiguration, stored, "run_configuration")
    read_as(_Retry, configuration.retry, "run_configuration.retry")
    _check_slurm(configuration.slurm, "run_configuration.slurm")
    return configuration


def _check_slurm(values: Mapping[str, Any], prefix: str) -> None:
    for key, value in values.items():
        if key == "nodes" and value != "":
            check_type(int, value, f"{prefix}.{key}")
        for item in value if isinstance(value, list) else (value,):
            if not isinstance(item, str | int | float):
                raise ValueError(f"`{prefix}.{key}` is {shown(value)}, expected text, a number or a list of them")


def record_from_json(stored: Any, directory: str) -> Record:
    """Parse the content of `run.json` of the run directory at `directory`.

    Paths are derived from `directory`, never from the file, which another user may have written. Raises ValueError,
    which names the key with the wrong value.
    """
    content = read_as(_Stored, stored)
    if content.schema > SCHEMA:
        raise ValueError(f"unknown schema {content.schema}")
    if content.run_id != os.path.basename(directory).removeprefix(DELETED_PREFIX):
        raise ValueError(f"it belongs to run {shown(content.run_id)}")
    _check_slurm(content.target.slurm, "target.slurm")
    root = root_of_state(state_of_run(directory))
    spec = RunSpec(
        run_id=content.run_id,
        run_directory=directory,
        project_root=root,
        project_name=content.project,
        working_directory=root,
        script=content.script,
        arguments=content.arguments,
        run_configuration=_configuration(content.run_configuration),
        target=content.target,
        gpu_check_due=content.gpu_check_due,
        keep_outputs=content.keep_outputs,
        sweep=_sweep_task(content.sweep) if content.sweep else None,
        starts_jupyter=content.starts_jupyter,
    )
    if spec.tracked:
        spec = spec._replace(working_directory=os.path.join(directory, WORKING_COPY))
    plan = Plan(content.target.name, content.target.type, content.interpreter, content.plan)
    return Record(
        content.run_id, content.run_number, content.created, content.user_id, spec, plan, content.commit_id,
        content.snapshot, content.origin, content.group, content.member, content.family, content.variables,
        agent_name(content.agent),
    )  # fmt: skip


def _sweep_task(values: tuple[Any, ...]) -> SweepTask:
    """Validate the position of a run in its sweep, because `name` becomes part of paths. Raises ValueError."""
    if len(values) != len(SweepTask._fields):
        raise ValueError("`sweep` is malformed")
    task = read_as(SweepTask, dict(zip(SweepTask._fields, values, strict=True)), "sweep")
    if not re.fullmatch(r"sweep-\d+-\d+", task.name):
        raise ValueError("`sweep` is malformed")
    return task


def problem_of(run: Run) -> str:
    """Return a message if a value of a run is invalid, or "". Files of other users can contain any values."""
    texts = (run.script_name, run.run_configuration, run.target, run.target_type, run.interpreter, run.commit_id,
             run.user_id, run.group, run.family, *run.words)  # fmt: skip
    times = (run.created, run.start, run.end)
    is_valid = (
        all(isinstance(text, str) for text in texts)
        and all(isinstance(moment, int | float) and abs(moment) < END_OF_TIME for moment in times)
        and isinstance(run.run_number, int)
        and abs(run.run_number) < _LARGEST
        and abs(run.exit_code or 0) < _LARGEST
    )
    return "" if is_valid else "not a record of a run: a value has the wrong type or range"
