"""`gpu list|top|check`: show the GPUs of targets and their processes, and check that runs would use the GPUs."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from tui_workbench.cli.computetarget.check import HOST_KEYS, RESULT, accept_host_keys, print_checks, report
from tui_workbench.cli.shared.output import emit, is_text, output
from tui_workbench.cli.shared.parser import option, options, seconds
from tui_workbench.cli.shared.prompts import ensure_login
from tui_workbench.core.errors import RunNotFound, TargetUnreachable, UsageError, WorkbenchError
from tui_workbench.core.model import ComputeTarget, RunSpec
from tui_workbench.core.plaintext import write_controls
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.targets.gpu.fleet import Fleet, MachineState
from tui_workbench.targets.gpu.framework_location import spec_of
from tui_workbench.targets.gpu.sample import Device, Machine, Reading
from tui_workbench.targets.hosts import contacts
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.registry import checks_for
from tui_workbench.targets.ssh.host_for import host_of
from tui_workbench.targets.ssh.ssh_host import SshHost

Record = dict[str, Any]

GPU_COLUMNS = (
    "target", "gpu", "name", "utilization", "memory_used", "memory_total", "power", "temperature", "throttled", "ecc",
    "used_by", "reserved_by", "problem",
)  # fmt: skip
PROCESS_COLUMNS = ("target", "gpu", "pid", "process", "user", "run", "script", "memory", "utilization", "problem")
DEFAULT_WAIT = 20.0
POLL_SECONDS = 0.1
FRESH_SECONDS = 3.0
"""Maximum age of a sample at the start of the command, in seconds. Older samples are ignored."""

_HOME_AND_CLEAR = "\x1b[H\x1b[J"

OPTIONS = (
    option("-t", "--target", metavar="NAME", action="append", default=[],
           help="only this target (default: all); repeatable"),
    option("--watch", action="store_true",
           help="repeat every second until Ctrl-C; without --query, -o json prints one line each time"),
    option("--wait", metavar="SECONDS", type=seconds, default=DEFAULT_WAIT,
           help=f"time limit for the machines to answer (default: {DEFAULT_WAIT:g})"),
    output(default="table", example="[?target=='local']"),
)  # fmt: skip

configure_list = options(
    *OPTIONS,
    epilog="""\
Prints one line per GPU: utilization in %, memory in MiB, power in W,
temperature in °C, `throttled` with the reason for low clocks, and `ecc` with
the number of uncorrected errors. An unreachable machine has a line with its
problem. On a shared machine, `reserved_by` shows who has reserved the GPU.
A machine that you have not contacted yet is contacted only if you name its
target with -t.

exit codes:
  0 if at least one machine answered, otherwise 4

examples:
  workbench-tui gpu list
  workbench-tui gpu list -t gpubox -t local --watch
  workbench-tui gpu list -o json --query "[?utilization<`5`].[target, gpu]\"""",
)
configure_top = options(
    *OPTIONS,
    epilog="""\
Prints one line per process that holds GPU memory, with its user and, for your
runs, the run ID and script. Memory is in MiB. `utilization` is the GPU utilization
by the process in %; it is empty if the driver does not report it.

exit codes:
  0 if at least one machine answered, otherwise 4

examples:
  workbench-tui gpu top
  workbench-tui gpu top -t gpubox --watch""",
)
configure_check = options(
    option("-t", "--target", metavar="NAME", default="", help="the compute target"),
    option(
        "-c",
        "--run-configuration",
        metavar="NAME",
        default="",
        help="check the environment of this .runconfig (default: the one with the target's name)",
    ),
    HOST_KEYS,
    RESULT,
    epilog="""\
Checks the driver, its GPUs, GPU access in containers, the framework in the
environment of the run, its build for CUDA or ROCm, and shared memory. It also
computes a matrix product on each GPU. It installs nothing and leaves no files.

exit codes:
  0 if runs would use a GPU, otherwise 4 (the last line shows the fix)

examples:
  workbench-tui gpu check -t local
  workbench-tui gpu check -t gpubox -c train-gpubox
  workbench-tui gpu check -t gpubox -o json""",
)


def run_list(arguments: argparse.Namespace) -> int:
    return _print(arguments, gpu_records, GPU_COLUMNS)


def run_top(arguments: argparse.Namespace) -> int:
    return _print(arguments, process_records, PROCESS_COLUMNS)


def _print(
    arguments: argparse.Namespace,
    records: Callable[[Sequence[MachineState], Titles], list[Record]],
    columns: Sequence[str],
) -> int:
    project = Project.find(arguments.project)
    titles = _titles(project)
    with Fleet(_targets(project, arguments.target)) as fleet:
        states = _wait_for_samples(fleet, arguments.wait)
        try:
            _emit(records(states, titles), arguments, columns)
            while arguments.watch:
                time.sleep(1.0)
                fleet.read()
                states = fleet.states
                _emit(records(states, titles), arguments, columns)
        except KeyboardInterrupt:
            sys.stdout.write("\n")
    answered = any(state.machine is not None and (state.machine.devices or state.machine.problem) for state in states)
    return 0 if answered else TargetUnreachable.exit_code


def _targets(project: Project, names: Sequence[str]) -> list[ComputeTarget]:
    if names:
        named = [project.target(name) for name in names]
        # The screens and later commands contact only machines that the user has named once.
        for target in named:
            contacts.record(target)
        return named
    targets = project.targets()
    if not targets:
        remedy = "Attach a target, for example Docker: `workbench-tui computetarget attach localdocker -n docker`."
        raise UsageError("the project has no compute target", remedy=remedy)
    return targets


def _wait_for_samples(fleet: Fleet, seconds: float) -> tuple[MachineState, ...]:
    """Wait until each machine has answered, for at most `seconds`. Return the states of the machines."""
    started = time.time()
    while True:
        fleet.read()
        states = fleet.states
        if all(_has_answered(state, started) for state in states) or time.time() - started > seconds:
            return states
        time.sleep(POLL_SECONDS)


def _has_answered(state: MachineState, started: float) -> bool:
    if state.problem:
        return True
    has_sample = state.sample is not None and state.sample.time > started - FRESH_SECONDS
    return has_sample and (state.reserved is not None or not state.is_shared)


def _emit(records: list[Record], arguments: argparse.Namespace, columns: Sequence[str]) -> None:
    if arguments.watch and arguments.output == "json" and not arguments.query:
        sys.stdout.write(json.dumps({"time": round(time.time(), 2), "records": records}) + "\n")
    else:
        if arguments.watch and sys.stdout.isatty():
            write_controls(sys.stdout, _HOME_AND_CLEAR)
        # Omit columns that are empty in every row.
        filled = [name for name in columns if any(record.get(name) not in (None, "", []) for record in records)]
        emit(records, arguments, filled or columns)
    sys.stdout.flush()


Titles = Callable[[str], str | None]
"""A function that returns the title of a run, such as `train.py [7]`, by its ID; None for an unknown run."""


def _titles(project: Project) -> Titles:
    @cache
    def title(run_id: str) -> str | None:
        with suppress(RunNotFound):
            run = Runs(project).get(run_id) if run_id else None
            return f"{run.script_name} [{run.run_number}]" if run is not None else None
        return None

    return title


def gpu_records(states: Sequence[MachineState], titles: Titles) -> list[Record]:
    """Return a record for each GPU. A machine without GPUs has a record with its problem."""
    records: list[Record] = []
    for state in states:
        devices = state.machine.devices if state.machine else ()
        readings = {reading.device: reading for reading in state.sample.readings} if state.sample else {}
        records += [_gpu(state, device, readings.get(device.number), titles) for device in devices]
        if not devices:
            records.append({**_location(state, None), "problem": _problem(state)})
    return records


def _gpu(state: MachineState, device: Device, latest: Reading | None, titles: Titles) -> Record:
    notes = [note.text for note in state.notes if note.device == device.number]
    if latest is None and state.sample is not None:
        notes.append("stopped responding")
    processes = state.sample.processes if state.sample else ()
    computing = [process for process in processes if process.device == device.number and not process.graphics]
    machine, reading = state.machine or Machine(), latest or Reading(device.number)
    throttled = ", ".join(reading.throttled_by)
    held = state.reserved.gpus.get(device.uuid) if state.reserved is not None else None
    used_by = list(dict.fromkeys(titles(process.run) or process.run or process.user or "?" for process in computing))
    return {
        **_location(state, device.number),
        "name": device.name,
        "uuid": device.uuid,
        "utilization": reading.utilization,
        "memory_used": reading.memory,
        "memory_total": device.memory,
        "power": reading.power,
        "power_limit": device.power_limit,
        "temperature": reading.temperature,
        "sm_clock": reading.sm_clock,
        "memory_clock": reading.memory_clock,
        "throttled": throttled,
        "held_down": throttled,  # the former name
        "ecc": reading.ecc,
        "mig": len(device.slices),
        "driver": machine.driver,
        "cuda": machine.cuda,
        "used_by": used_by,
        "whose": used_by,  # the former name
        "reserved_by": held.text if held is not None else None,
        "problem": "; ".join(part for part in (_problem(state), *notes) if part) or None,
    }


def process_records(states: Sequence[MachineState], titles: Titles) -> list[Record]:
    """Return a record for each process. A machine without a sample has a record with its problem."""
    records: list[Record] = []
    for state in states:
        if state.problem or state.sample is None:
            records.append({**_location(state, None), "problem": _problem(state)})
        for process in state.sample.processes if state.sample else ():
            records.append(
                {
                    **_location(state, process.device),
                    "pid": process.pid,
                    "process": process.name,
                    "user": process.user,
                    "run": process.run or None,
                    "script": titles(process.run),
                    "container": process.container[:12] or None,
                    "draws_only": process.graphics,
                    "memory": process.memory,
                    "utilization": process.utilization,
                    "problem": None,
                }
            )
    return records


def _location(state: MachineState, device: int | None) -> Record:
    return {"target": ",".join(state.targets), "address": state.address or None, "gpu": device}


def _problem(state: MachineState) -> str | None:
    if state.problem:
        return f"{state.problem}. {state.remedy}".rstrip(". ") if state.remedy else state.problem
    if state.machine is None:
        return "no answer yet"
    if state.silent:
        return f"no answer for {state.silent:.0f} s"
    return state.reserved.problem or None if state.reserved is not None else None


def run_check(arguments: argparse.Namespace) -> int:
    spec = _run_spec(arguments)
    hosts = {part.target.name: _log_in(part.target, arguments) for part in spec.parts}
    return report(print_checks(checks_for(spec.target, hosts).run_gpus(spec), spec.target, arguments), arguments)


def _log_in(target: ComputeTarget, arguments: argparse.Namespace) -> Host | None:
    """Log in to the machine of a target. Return None on an error, which the first check then reports."""
    try:
        host = host_of(target)
        accept_host_keys(host, arguments.accept_host_key)
        if isinstance(host, SshHost) and is_text(arguments):
            ensure_login(target)
    except WorkbenchError:
        return None
    return host


def _run_spec(arguments: argparse.Namespace) -> RunSpec:
    """Return the specification of a run of the given run configuration; by default, of a run on the given target.

    If both are given, the target overrides that of the run configuration. Raises UsageError if neither is given.
    """
    project = Project.find(arguments.project)
    if arguments.run_configuration:
        configuration = project.run_configuration(arguments.run_configuration)
        return spec_of(project.target_of(configuration, arguments.target), configuration)
    if not arguments.target:
        raise UsageError("no target or run configuration given", remedy="Add `-t TARGET` or `-c NAME`.")
    return spec_of(project.target(arguments.target))
