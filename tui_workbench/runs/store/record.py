"""Convert the record of a run to the content of `run.json`, and back."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from tui_workbench.config.secret_values import known_secrets
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
from tui_workbench.projects.project import root_of_state
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
    known = known_secrets(spec.project_root, spec.run_configuration.environment_variables)
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
        "run_configuration": _without_problem(configuration._asdict(), known),
        "target": _masked_target(spec.target),
        "interpreter": record.plan.interpreter,
        "plan": [mask_values_in(step._asdict(), known) for step in mask_plan(record.plan).steps],
    }


def masked_arguments(arguments: Sequence[str], spec: RunSpec) -> tuple[str, ...]:
    """Return arguments as they are recorded: with secrets masked, and the values of the run's secret variables."""
    known = known_secrets(spec.project_root, spec.run_configuration.environment_variables)
    return tuple(mask_values(word, known) for word in mask_words(arguments))


def _without_problem(values: dict[str, Any], known: Sequence[str] = ()) -> dict[str, Any]:
    # A run never starts from a file with a `problem`.
    kept = {key: value for key, value in values.items() if key != "problem"}
    return {**kept, "values": mask_values_in(mask_tree(values["values"]), known)}


def _masked_target(target: ComputeTarget) -> dict[str, Any]:
    setup = tuple(map(mask_command, target.setup))
    stored = _without_problem(target._replace(setup=setup)._asdict())
    if "setup" in stored["values"]:
        stored["values"] = {**stored["values"], "setup": setup}
    return {**stored, "parts": tuple(map(_masked_target, target.parts))}


def _target_from_json(stored: dict[str, Any]) -> ComputeTarget:
    tuples = {key: tuple(stored.get(key, ())) for key in ("setup", "members")}
    return ComputeTarget(**{**stored, **tuples, "parts": tuple(map(_target_from_json, stored.get("parts", ())))})


def _references(stored: Any) -> dict[str, str]:
    """Return the data references of a run. Earlier versions stored a list of paths. Raises TypeError or ValueError."""
    found = dict(stored) if isinstance(stored, dict) else {path: path for path in stored}
    if not all(isinstance(text, str) for pair in found.items() for text in pair):
        raise TypeError("a data reference is not a string")
    return found


def record_from_json(stored: dict[str, Any], directory: str) -> Record:
    """Parse run.json of the run directory at `directory`.

    Paths are derived from `directory`, never from the file, which another user may have written. Malformed data raises
    ValueError, KeyError, TypeError or AttributeError.
    """
    if stored["schema"] > SCHEMA:
        raise ValueError(f"unknown schema {stored['schema']}")
    if stored["run_id"] != os.path.basename(directory).removeprefix(DELETED_PREFIX):
        raise ValueError(f"it belongs to run {stored['run_id']!r}")
    if not all(isinstance(argument, str) for argument in stored["arguments"]):
        raise TypeError("an argument is not a string")
    # Earlier versions stored more fields.
    known = {key: value for key, value in stored["run_configuration"].items() if key in RunConfiguration._fields}
    known["argument_vector"] = tuple(known["argument_vector"])
    known["data_references"] = _references(known.get("data_references", {}))
    target = _target_from_json(stored["target"])
    root = root_of_state(os.path.dirname(os.path.dirname(directory)))
    spec = RunSpec(
        run_id=stored["run_id"],
        run_directory=directory,
        project_root=root,
        project_name=stored["project"],
        working_directory=root,
        script=stored["script"],
        arguments=tuple(stored["arguments"]),
        run_configuration=RunConfiguration(**known),
        target=target,
        gpu_check_due=bool(stored.get("gpu_check_due")),
        keep_outputs=tuple(stored.get("keep_outputs", ())),
        sweep=_sweep_task(*stored["sweep"]) if "sweep" in stored else None,
        starts_jupyter=bool(stored.get("starts_jupyter")),
    )
    if spec.tracked:
        spec = spec._replace(working_directory=os.path.join(directory, WORKING_COPY))
    steps = tuple(Step(**{**step, "command": tuple(step["command"])}) for step in stored["plan"])
    plan = Plan(target.name, target.type, stored["interpreter"], steps)
    return Record(
        stored["run_id"], stored["run_number"], stored["created"], stored["user_id"], spec, plan,
        stored["commit_id"], stored["snapshot"],
        stored.get("origin", ""), stored.get("group", ""), stored.get("member", 0), stored.get("family", ""),
        tuple(stored.get("variables", ())), agent_name(stored.get("agent")),
    )  # fmt: skip


def _sweep_task(name: str, number: int, size: int, limit: int) -> SweepTask:
    """Validate the position of a run in its sweep, because `name` becomes part of paths.

    Raises ValueError or TypeError.
    """
    if not re.fullmatch(r"sweep-\d+-\d+", name) or not all(type(each) is int for each in (number, size, limit)):
        raise ValueError("`sweep` is malformed")
    return SweepTask(name, number, size, limit)


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
