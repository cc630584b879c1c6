"""What limits how many runs go on at a time: what a run takes of its target and its sweep, and why it has to wait."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import NamedTuple

from tui_workbench.core.errors import storage_errors
from tui_workbench.core.files import append_below, load_json, write_below
from tui_workbench.core.model import ComputeTarget, RunRequest, RunSpec, Step
from tui_workbench.runs.lifecycle.building import keep_environment
from tui_workbench.runs.store.rundir import QUEUE_ENTRY, WAITING, RunDirectory

STEP = "queue"
_NAMED_HOLDERS = 3
GPUS = "/proc/driver/nvidia/gpus"


class Demand(NamedTuple):
    """What a run takes, and of what. Empty names and 0 stand for what does not limit it."""

    machine: str  # the machine that it was submitted on, whose processes alone look after it
    target: str  # what all runs on the same target have in common
    target_name: str
    limit: int
    group: str
    group_limit: int
    label: str  # how the run is called in the reasons of others
    places: int = 1  # how many of `limit` it takes


def limit_of(target: ComputeTarget) -> int:
    """How many runs the target takes at a time; 0 when any number.

    A target that asks for GPUs and says nothing takes one a GPU: one that cannot be counted from here has one.
    """
    if target.max_concurrent_runs >= 0:
        return target.max_concurrent_runs
    wanted = 1 if target.gpus == "free" else int(target.gpus) if target.gpus.isdigit() else 0
    if not wanted and not (target.nvidia_docker and target.gives_gpus):
        return 0
    if target.kind.is_remote:
        return 1
    try:
        return max(1, len(os.listdir(GPUS)) // max(1, wanted))
    except OSError:
        return 1


def places_of(spec: RunSpec, limit: int) -> int:
    """How many of them a run takes: where they are GPUs, one for each of its processes under torchrun."""
    processes, target = spec.run_configuration.processes_per_node, spec.target
    if not processes or target.max_concurrent_runs >= 0 or target.gpus not in ("", "all"):
        return 1
    return max(1, limit if processes == "gpus" else min(limit, int(processes)))


def is_limited(target: ComputeTarget, request: RunRequest) -> bool:
    """True for a request whose run may have to wait for a turn."""
    return bool(request.group_limit or limit_of(target))


def step_of(target: ComputeTarget, request: RunRequest) -> Step:
    """What the plan says of the wait."""
    limits = [f"{limit} at a time on {target.name}" for limit in (limit_of(target),) if limit]
    limits += [f"{request.group_limit} at a time of its sweep"] if request.group_limit else []
    return Step(STEP, f"wait for its turn: {', '.join(limits)}")


def label_of(spec: RunSpec, number: int) -> str:
    """How a run is called in the reasons of others."""
    return f"{os.path.basename(spec.script)} [{number}]"


def target_key(target: ComputeTarget) -> str:
    """The same for all targets that are the same place, in whatever project and by whatever name."""
    kind = target.kind.name
    return f"{kind} {target.username}@{target.address}" if target.address else kind


def reason_to_wait(demand: Demand, going: Sequence[Demand], held_up: Sequence[Demand], limits: dict[str, int]) -> str:
    """What a run waits for, "" when for nothing; `limits` are those of the targets, by `Demand.target`."""
    on_target = [other for other in going if other.target == demand.target]
    taken = sum(other.places for other in on_target)
    if demand.target and on_target and taken + demand.places > limits[demand.target]:
        ahead = [other for other in held_up if other.target == demand.target]
        return f"waits for {_labels(ahead[-1:] or on_target)} on {demand.target_name}"
    in_group = [other for other in going if other.group == demand.group]
    if demand.group and len(in_group) >= demand.group_limit:
        ahead = [other for other in held_up if other.group == demand.group]
        return f"waits for {_labels(ahead[-1:] or in_group)} of its sweep"
    return ""


def _labels(demands: Sequence[Demand]) -> str:
    names = [demand.label for demand in demands]
    return " or ".join(names) if len(names) <= _NAMED_HOLDERS else f"one of {len(names)} runs"


def register(directory: RunDirectory, spec: RunSpec, request: RunRequest, number: int) -> None:
    """Note, in a run's directory that has no name yet, what its turn depends on, and that it has not come.

    Whoever gives it its turn may have quite another environment than this process, so that is noted as well, but for
    what must not be written down. Raises StorageError.
    """
    # Names of sweeps are the project's own.
    group = f"{request.group} {spec.project_root}" if request.group_limit else ""
    limit = limit_of(spec.target)
    key = target_key(spec.target) if limit else ""
    label, places = label_of(spec, number), places_of(spec, limit)
    machine = os.uname().nodename
    demand = Demand(machine, key, spec.target.name, limit, group, request.group_limit, label, places)
    write_demand(directory, demand)
    keep_environment(directory, os.environ)
    with storage_errors("write", directory.file(WAITING)):
        append_below(directory.path, WAITING, b"", exclusive=True)


def write_demand(directory: RunDirectory, demand: Demand) -> None:
    """Note what a run takes in its directory. Raises StorageError."""
    with storage_errors("write", directory.file(QUEUE_ENTRY)):
        write_below(directory.path, QUEUE_ENTRY, json.dumps(demand._asdict()).encode() + b"\n")


def read_demand(directory: RunDirectory) -> Demand:
    """What was noted. Raises OSError, ValueError or TypeError when there is none, or the run is not this user's own."""
    if not directory.is_own:
        raise PermissionError(f"{directory.path} is not a run of this user")
    stored = load_json(directory.file(QUEUE_ENTRY))
    return Demand(*stored) if isinstance(stored, list) else Demand(**stored)  # a list: of earlier versions
