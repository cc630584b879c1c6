"""`gpu list|top`: the GPUs of all targets and the processes on them, as the monitor shows them."""

from __future__ import annotations

import sys
import time

from tui_workbench.cli.output import add_output_options, emit
from tui_workbench.errors import RunNotFound, TargetUnreachable, UsageError
from tui_workbench.project import Project
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from tui_workbench.model import ComputeTarget
    from tui_workbench.targets.gpu.fleet import Fleet, MachineState
    from tui_workbench.targets.gpu.sample import Device, Process, Reading

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


def configure_list(parser: argparse.ArgumentParser) -> None:
    """Options of `gpu list`."""
    parser.epilog = """\
A line a GPU. Utilisation in %, memory in MiB, power in W, temperature in degrees Celsius; `held_down` says why its
clocks are low, `ecc` counts uncorrected errors. A machine that is not seen has a line with its problem.

exit codes:
  0 at least one machine was seen, 4 none

examples:
  workbench-tui gpu list
  workbench-tui gpu list -t gpubox -t local --watch
  workbench-tui gpu list -o json --query "[?utilization<`5`].[target, gpu]\""""
    _add_options(parser)


def configure_top(parser: argparse.ArgumentParser) -> None:
    """Options of `gpu top`."""
    parser.epilog = """\
A line a process that holds memory of a GPU, with whose it is: a run of yours by its id and script, else a user.
Memory in MiB, its own share of the GPU in % where the driver tells it.

exit codes:
  0 at least one machine was seen, 4 none

examples:
  workbench-tui gpu top
  workbench-tui gpu top -t gpubox --watch"""
    _add_options(parser)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-t", "--target", metavar="NAME", action="append", default=[], help="of this target (default: all); repeatable"
    )
    parser.add_argument("--watch", action="store_true", help="once a second until Ctrl-C; with -o json a line each")
    parser.add_argument(
        "--wait", metavar="SECONDS", type=float, default=DEFAULT_WAIT,
        help=f"for the first answer of each machine (default: {DEFAULT_WAIT:g})",
    )  # fmt: skip
    add_output_options(parser, default="table", note="default: table")


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
    from tui_workbench.targets.gpu.fleet import Fleet

    project = Project.find(arguments.project)
    titles = Titles(project)
    with Fleet(_targets(project, arguments.target)) as fleet:
        states = _answered(fleet, arguments.wait)
        try:
            while True:
                _emit(records(states, titles), arguments, columns)
                if not arguments.watch:
                    break
                states = _next(fleet)
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


def _next(fleet: Fleet) -> tuple[MachineState, ...]:
    """The same a second later."""
    time.sleep(1.0)
    fleet.read()
    return fleet.states


def _emit(records: list[Record], arguments: argparse.Namespace, columns: Sequence[str]) -> None:
    if arguments.watch and arguments.output == "json" and not arguments.query:
        import json

        sys.stdout.write(json.dumps({"time": round(time.time(), 2), "records": records}) + "\n")
    else:
        if arguments.watch and sys.stdout.isatty():
            sys.stdout.write(_HOME_AND_CLEAR)
        # What is empty in every line is no column of a table.
        known = [name for name in columns if any(record.get(name) not in (None, "", []) for record in records)]
        emit(records, arguments, known or columns)
    sys.stdout.flush()


# --- Records


class Titles:
    """Scripts and numbers of runs of the project, asked for once each."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._known: dict[str, str | None] = {}

    def of(self, run_id: str) -> str | None:
        """`train.py [7]`; None for a run of another project, and for none."""
        if run_id and run_id not in self._known:
            from tui_workbench.runs import Runs

            try:
                run = Runs(self._project).get(run_id)
                self._known[run_id] = f"{run.script_name} [{run.run_number}]"
            except RunNotFound:
                self._known[run_id] = None
        return self._known.get(run_id)


def gpu_records(states: Sequence[MachineState], titles: Titles) -> list[Record]:
    """A record a GPU; of a machine without any a record with its problem."""
    return [record for state in states for record in _gpus_of(state, titles)]


def _gpus_of(state: MachineState, titles: Titles) -> Iterator[Record]:
    devices = state.machine.devices if state.machine else ()
    if not devices:
        yield {**_place(state, None), "problem": _problem(state)}
    readings = {reading.device: reading for reading in state.sample.readings} if state.sample else {}
    processes = state.sample.processes if state.sample else ()
    for device in devices:
        on_it = [process for process in processes if process.device == device.number and not process.graphics]
        yield _gpu(state, device, readings.get(device.number), on_it, titles)


def _gpu(
    state: MachineState, device: Device, reading: Reading | None, processes: Sequence[Process], titles: Titles
) -> Record:
    notes = [note.text for note in state.notes if note.device == device.number]
    if reading is None and state.sample is not None:
        notes.append("it tells nothing any more")
    machine = state.machine
    return {
        **_place(state, device.number),
        "name": device.name,
        "uuid": device.uuid,
        "utilization": reading.utilization if reading else None,
        "memory_used": reading.memory if reading else None,
        "memory_total": device.memory,
        "power": reading.power if reading else None,
        "power_limit": device.power_limit,
        "temperature": reading.temperature if reading else None,
        "sm_clock": reading.sm_clock if reading else None,
        "memory_clock": reading.memory_clock if reading else None,
        "held_down": ", ".join(reading.throttled_by) if reading else "",
        "ecc": reading.ecc if reading else None,
        "mig": len(device.slices),
        "driver": machine.driver if machine else "",
        "cuda": machine.cuda if machine else "",
        "whose": list(dict.fromkeys(titles.of(each.run) or each.run or each.user or "?" for each in processes)),
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
                    "script": titles.of(process.run),
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
