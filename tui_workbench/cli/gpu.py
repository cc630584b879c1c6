"""`gpu list|top|check`: the GPUs of all targets and the processes on them, and whether runs would use them."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from tui_workbench.cli.computetarget.check import HOST_KEYS, RESULT, accept_host_keys, climb, report
from tui_workbench.cli.shared.output import emit, is_text, output
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.cli.shared.prompts import settle_login
from tui_workbench.core.errors import RunNotFound, TargetUnreachable, UsageError, WorkbenchError
from tui_workbench.core.model import ComputeTarget, RunSpec
from tui_workbench.core.plaintext import write_controls
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.targets.checks.check import run_gpu_checks
from tui_workbench.targets.gpu.fleet import Fleet, MachineState
from tui_workbench.targets.gpu.framework_location import spec_of
from tui_workbench.targets.gpu.sample import Device, Machine, Reading
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.hosts.host_for import host_of
from tui_workbench.targets.ssh.ssh_host import SshHost

Record = dict[str, Any]

GPU_COLUMNS = (
    "target", "gpu", "name", "utilization", "memory_used", "memory_total", "power", "temperature", "held_down", "ecc",
    "whose", "problem",
)  # fmt: skip
PROCESS_COLUMNS = ("target", "gpu", "pid", "process", "user", "run", "script", "memory", "utilization", "problem")
DEFAULT_WAIT = 20.0
LOOK_SECONDS = 0.1
FRESH_SECONDS = 3.0
"""A sample that is older was told before anybody asked."""

_HOME_AND_CLEAR = "\x1b[H\x1b[J"

OPTIONS = (
    option(
        "-t", "--target", metavar="NAME", action="append", default=[], help="of this target (default: all); repeatable"
    ),
    option("--watch", action="store_true", help="once a second until Ctrl-C; with -o json a line each"),
    option("--wait", metavar="SECONDS", type=float, default=DEFAULT_WAIT,
           help=f"for the first answer of each machine (default: {DEFAULT_WAIT:g})"),
    output(default="table", note="default: table"),
)  # fmt: skip

configure_list = options(
    *OPTIONS,
    epilog="""\
A line a GPU. Utilisation in %, memory in MiB, power in W, temperature in degrees Celsius; `held_down` says why its
clocks are low, `ecc` counts uncorrected errors. A machine that is not seen has a line with its problem.

exit codes:
  0 at least one machine was seen, 4 none

examples:
  workbench-tui gpu list
  workbench-tui gpu list -t gpubox -t local --watch
  workbench-tui gpu list -o json --query "[?utilization<`5`].[target, gpu]\"""",
)
configure_top = options(
    *OPTIONS,
    epilog="""\
A line a process that holds memory of a GPU, with whose it is: a run of yours by its id and script, else a user.
Memory in MiB, its own share of the GPU in % where the driver tells it.

exit codes:
  0 at least one machine was seen, 4 none

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
        help="the .runconfig whose environment is asked (default: the one of the target's name)",
    ),
    HOST_KEYS,
    RESULT,
    epilog="""\
Asks the driver, its GPUs, a container with them, the framework in the run's own environment, whether that fits the
driver, and shared memory. A matrix product on each GPU proves it. Nothing is installed or left behind.

exit codes:
  0 runs would compute on a GPU, 4 they would not (the last line says what mends it)

examples:
  workbench-tui gpu check -t local
  workbench-tui gpu check -t gpubox -c train-gpubox
  workbench-tui gpu check -t gpubox -o json""",
)


def run_list(arguments: argparse.Namespace) -> int:
    """Print every GPU."""
    return _print(arguments, gpu_records, GPU_COLUMNS)


def run_top(arguments: argparse.Namespace) -> int:
    """Print every process on a GPU."""
    return _print(arguments, process_records, PROCESS_COLUMNS)


def _print(
    arguments: argparse.Namespace,
    records: Callable[[Sequence[MachineState], Titles], list[Record]],
    columns: Sequence[str],
) -> int:
    project = Project.find(arguments.project)
    titles = _titles(project)
    with Fleet(_targets(project, arguments.target)) as fleet:
        states = _answered(fleet, arguments.wait)
        try:
            _emit(records(states, titles), arguments, columns)
            while arguments.watch:
                time.sleep(1.0)
                fleet.read()
                states = fleet.states
                _emit(records(states, titles), arguments, columns)
        except KeyboardInterrupt:
            sys.stdout.write("\n")
    seen = any(state.machine is not None and (state.machine.devices or state.machine.problem) for state in states)
    return 0 if seen else TargetUnreachable.exit_code


def _targets(project: Project, names: Sequence[str]) -> list[ComputeTarget]:
    if names:
        return [project.target(name) for name in names]
    targets = project.targets()
    if not targets:
        raise UsageError("the project has no compute target", remedy="Attach one: workbench-tui computetarget attach.")
    return targets


def _answered(fleet: Fleet, seconds: float) -> tuple[MachineState, ...]:
    """What the machines tell, once each has told something or the time is over."""
    started = time.time()
    while True:
        fleet.read()
        states = fleet.states
        if all(_is_settled(state, started) for state in states) or time.time() - started > seconds:
            return states
        time.sleep(LOOK_SECONDS)


def _is_settled(state: MachineState, started: float) -> bool:
    return bool(state.problem) or (state.sample is not None and state.sample.time > started - FRESH_SECONDS)


def _emit(records: list[Record], arguments: argparse.Namespace, columns: Sequence[str]) -> None:
    if arguments.watch and arguments.output == "json" and not arguments.query:
        sys.stdout.write(json.dumps({"time": round(time.time(), 2), "records": records}) + "\n")
    else:
        if arguments.watch and sys.stdout.isatty():
            write_controls(sys.stdout, _HOME_AND_CLEAR)
        # What is empty in every line is no column of a table.
        known = [name for name in columns if any(record.get(name) not in (None, "", []) for record in records)]
        emit(records, arguments, known or columns)
    sys.stdout.flush()


# --- Records


Titles = Callable[[str], str | None]
"""The script and the number of a run by its id: `train.py [7]`; None for a run of another project, and for none."""


def _titles(project: Project) -> Titles:
    @cache
    def title(run_id: str) -> str | None:
        with suppress(RunNotFound):
            run = Runs(project).get(run_id) if run_id else None
            return f"{run.script_name} [{run.run_number}]" if run is not None else None
        return None

    return title


def gpu_records(states: Sequence[MachineState], titles: Titles) -> list[Record]:
    """A record a GPU; of a machine without any a record with its problem."""
    found: list[Record] = []
    for state in states:
        devices = state.machine.devices if state.machine else ()
        readings = {reading.device: reading for reading in state.sample.readings} if state.sample else {}
        found += [_gpu(state, device, readings.get(device.number), titles) for device in devices]
        if not devices:
            found.append({**_place(state, None), "problem": _problem(state)})
    return found


def _gpu(state: MachineState, device: Device, told: Reading | None, titles: Titles) -> Record:
    notes = [note.text for note in state.notes if note.device == device.number]
    if told is None and state.sample is not None:
        notes.append("stopped responding")
    processes = state.sample.processes if state.sample else ()
    on_it = [process for process in processes if process.device == device.number and not process.graphics]
    machine, reading = state.machine or Machine(), told or Reading(device.number)
    return {
        **_place(state, device.number),
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
        "held_down": ", ".join(reading.throttled_by),
        "ecc": reading.ecc,
        "mig": len(device.slices),
        "driver": machine.driver,
        "cuda": machine.cuda,
        "whose": list(dict.fromkeys(titles(each.run) or each.run or each.user or "?" for each in on_it)),
        "problem": "; ".join(part for part in (_problem(state), *notes) if part) or None,
    }


def process_records(states: Sequence[MachineState], titles: Titles) -> list[Record]:
    """A record a process; of a machine that is not seen a record with its problem."""
    found: list[Record] = []
    for state in states:
        if state.problem or state.sample is None:
            found.append({**_place(state, None), "problem": _problem(state)})
        for process in state.sample.processes if state.sample else ():
            found.append(
                {
                    **_place(state, process.device),
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
    return found


def _place(state: MachineState, device: int | None) -> Record:
    return {"target": ",".join(state.targets), "address": state.address or None, "gpu": device}


def _problem(state: MachineState) -> str | None:
    if state.problem:
        return f"{state.problem}. {state.remedy}".rstrip(". ") if state.remedy else state.problem
    if state.machine is None:
        return "no answer yet"
    return f"no answer for {state.silent:.0f} s" if state.silent else None


# --- Whether runs would compute on a GPU


def run_check(arguments: argparse.Namespace) -> int:
    """Ask rung by rung; 4 when one is broken."""
    spec = _specification(arguments)
    host = _logged_in(spec.target, arguments)
    return report(climb(run_gpu_checks(spec, host), spec.target, arguments), arguments)


def _logged_in(target: ComputeTarget, arguments: argparse.Namespace) -> Host | None:
    """The other machine of a target, once what a login needs was asked for; None where the first rung says why."""
    try:
        host = host_of(target)
        accept_host_keys(host, arguments.accept_host_key)
        if isinstance(host, SshHost) and is_text(arguments):
            settle_login(target)
    except WorkbenchError:
        return None
    return host


def _specification(arguments: argparse.Namespace) -> RunSpec:
    """What is asked: of a run configuration and its target, or another; or of a target alone."""
    project = Project.find(arguments.project)
    if arguments.run_configuration:
        configuration = project.run_configuration(arguments.run_configuration)
        return spec_of(project.target_of(configuration, arguments.target), configuration)
    if not arguments.target:
        raise UsageError("neither a target nor a run configuration was named", remedy="Name one with -t or -c.")
    return spec_of(project.target(arguments.target))
