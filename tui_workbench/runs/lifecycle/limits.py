"""Limits on concurrent runs. The limit of a target is a number of places, and a run takes one or more places."""

from __future__ import annotations

import contextlib
import glob
import json
import os
from collections.abc import Sequence
from typing import NamedTuple

from tui_workbench.core.errors import storage_errors
from tui_workbench.core.files import append_below, load_json, read_file
from tui_workbench.core.json_values import read_as
from tui_workbench.core.model import ComputeTarget, RunRequest, RunSpec, Step
from tui_workbench.core.plaintext import counted
from tui_workbench.runs.lifecycle.stored_environment import save_environment
from tui_workbench.runs.store.rundir import DEPENDENTS, QUEUE_ENTRY, WAITING, RunDirectory

STEP = "queue"
_NAMED_HOLDERS = 3
GPUS = "/proc/driver/nvidia/gpus"
AMD_GPUS = "/sys/class/kfd/kfd/topology/nodes/*/gpu_id"  # the files contain 0 for CPUs


class Dependency(NamedTuple):
    """The run that must end before another run starts."""

    path: str  # its directory
    condition: str  # OK, ANY or FAILED of `dependencies`
    label: str
    words: str  # the dependency as text for the plan


class Demand(NamedTuple):
    """The limits that apply to a run. Empty names and 0 mean no limit."""

    machine: str  # the machine that submitted the run and drives it
    target: str  # equal for all runs on the same target
    target_name: str
    limit: int
    group: str
    group_limit: int
    label: str  # name of the run in the reasons why other runs wait
    places: int = 1  # number of places of `limit` that the run takes
    after: str = ""  # directory of the run that must end first
    after_condition: str = ""  # see `dependencies`
    after_label: str = ""  # name of the other run


def limit_of(target: ComputeTarget) -> int:
    """Return the maximum number of concurrent runs on the target; 0 means no limit.

    By default, a target that requests GPUs has as many places as the GPUs of this machine allow, or one place on
    another machine. A group has the smallest limit of its members. Targets with a scheduler have no limit, because the
    scheduler has its own limits.
    """
    if target.max_concurrent_runs >= 0:
        return target.max_concurrent_runs
    if target.kind.has_scheduler:
        return 0
    if target.parts:
        return min(filter(None, map(limit_of, target.parts)), default=0)
    gpus = 1 if target.gpus == "free" else int(target.gpus) if target.gpus.isdigit() else 0
    if not gpus and not (target.nvidia_docker and target.gives_gpus):
        return 0
    if target.kind.is_remote:
        return 1
    return max(1, count_gpus() // max(1, gpus))


def count_gpus() -> int:
    """Return the number of GPUs of this machine; 0 if it is not known."""
    try:
        return len(os.listdir(GPUS))
    except OSError:
        pass
    count = 0
    for path in glob.glob(AMD_GPUS):
        with contextlib.suppress(OSError):
            count += read_file(path).strip() not in (b"", b"0")
    return count


def places_of(spec: RunSpec, limit: int) -> int:
    """Return the number of places that a run takes.

    If each place is a GPU, a run takes one for each torchrun process, but at most `limit`. Other runs take one.
    """
    processes, target = spec.run_configuration.processes_per_node, spec.target
    if not processes or target.max_concurrent_runs >= 0 or target.gpus not in ("", "all"):
        return 1
    return max(1, limit if processes == "gpus" else min(limit, int(processes)))


def is_limited(target: ComputeTarget, request: RunRequest) -> bool:
    """Return True if a run of this request may have to wait."""
    return bool(request.group_limit or request.after or limit_of(target))


def step_of(target: ComputeTarget, request: RunRequest, after: Dependency | None) -> Step:
    """Return the step of the plan in which the run waits in the queue."""
    limits = [f"{counted(limit, 'run')} at a time on {target.name}" for limit in (limit_of(target),) if limit]
    limits += [f"{counted(request.group_limit, 'run')} at a time in its sweep"] if request.group_limit else []
    limits += [after.words] if after is not None else []
    return Step(STEP, f"wait in the queue: {', '.join(limits)}")


def label_of(spec: RunSpec, number: int) -> str:
    """Return the title of a run: `train.py [7]`."""
    return f"{os.path.basename(spec.script)} [{number}]"


def target_key(target: ComputeTarget) -> str:
    """Return a key that is equal for targets with the same type, user and address, in all projects."""
    kind = target.kind.name
    if target.parts:
        return f"{kind} {' '.join(sorted(map(target_key, target.parts)))}"
    return f"{kind} {target.username}@{target.address}" if target.address else kind


def reason_to_wait(demand: Demand, going: Sequence[Demand], held_up: Sequence[Demand], limits: dict[str, int]) -> str:
    """Return the reason why a run must wait, or "".

    `going` are the active runs, and `held_up` the waiting runs that were submitted before this run. `limits` contains
    the limit of each target by `Demand.target`.
    """
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


def register(
    directory: RunDirectory, spec: RunSpec, request: RunRequest, number: int, after: Dependency | None
) -> None:
    """Mark a new run, whose directory is still being created, as waiting, and write its demand.

    The environment of the submitter is stored too, without secrets, because the process that starts the run may have
    another environment. Raises StorageError.
    """
    # Sweeps of different projects can have the same name.
    group = f"{request.group} {spec.project_root}" if request.group_limit else ""
    limit = limit_of(spec.target)
    key = target_key(spec.target) if limit else ""
    label, places = label_of(spec, number), places_of(spec, limit)
    machine = os.uname().nodename
    demand = Demand(machine, key, spec.target.name, limit, group, request.group_limit, label, places)
    if after is not None:
        demand = demand._replace(after=after.path, after_condition=after.condition, after_label=after.label)
    write_demand(directory, demand)
    save_environment(directory, os.environ)
    with storage_errors("write", directory.file(WAITING)):
        append_below(directory.path, WAITING, b"", exclusive=True)
    if after is not None and not RunDirectory(after.path).status().end:
        with storage_errors("write", os.path.join(after.path, DEPENDENTS)):
            append_below(after.path, DEPENDENTS, f"{spec.run_id}\n".encode())


def write_demand(directory: RunDirectory, demand: Demand) -> None:
    """Write the demand of a run. Raises StorageError."""
    directory.write(QUEUE_ENTRY, json.dumps(demand._asdict()).encode() + b"\n")


def read_demand(directory: RunDirectory) -> Demand:
    """Read the demand of a run of this user. Raises OSError or ValueError."""
    if not directory.is_own:
        raise PermissionError(f"{directory.path} is not a run of this user")
    stored = load_json(directory.file(QUEUE_ENTRY))
    if isinstance(stored, list):  # earlier versions
        stored = dict(zip(Demand._fields, stored, strict=False))
    return read_as(Demand, stored)
