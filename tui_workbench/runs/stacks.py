"""Read the Python stacks of a running run from its processes, keep them with the run, and describe them.

Each reading is a JSON file in the folder `stacks/` of the run directory. The files of imported runs are not trusted.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from tui_workbench.core import trace
from tui_workbench.core.errors import RunNotFound, StorageError, UsageError, WorkbenchError, storage_errors
from tui_workbench.core.files import make_folders, read_below, unlink_below
from tui_workbench.core.installation import package_command
from tui_workbench.core.json_values import parse_json
from tui_workbench.core.masking import mask_words
from tui_workbench.core.model import Run, RunState
from tui_workbench.core.moments import utc
from tui_workbench.core.plaintext import counted, number_ranges
from tui_workbench.runs.store.rundir import STACKS, RunDirectory, json_bytes
from tui_workbench.targets.hosts.stacks import (
    Frame,
    NamedProcess,
    ProcessStacks,
    Reading,
    ThreadStack,
    name_processes,
)
from tui_workbench.targets.registry import target_for

MOST_KEPT = 20
"""Maximum number of readings that are kept for a run. Older files are removed."""

LARGEST = 8 << 20
"""Maximum size of a file in bytes. A process with four threads takes about 10 kB."""

_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python", "<frozen")
"""Parts of the paths of libraries."""

_REFUSED = "ermission"  # in py-spy's message, if the kernel does not permit it to read a process
LOCKED_SCOPE = 3  # a value of kernel.yama.ptrace_scope that cannot be changed until a restart (Yama.rst of Linux)
_INVALID = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)


class Stacks(NamedTuple):
    """The stacks of a run at one moment."""

    run_id: str
    time: float  # seconds since the epoch
    seconds: float  # the duration of the reading
    total: int  # all Python processes, including those that were not read
    processes: tuple[NamedProcess, ...]


def why_no_stacks(run: Run) -> str:
    """Return a clause that says why the stacks of a run cannot be read now; "" if they can."""
    if run.imported:
        return "the run was not submitted by you on this machine"
    if not run.is_active:
        return "the run has ended"
    return "" if run.state in (RunState.RUNNING, RunState.UNKNOWN) else "the script is not running"


def take_stacks(directory: RunDirectory) -> Stacks:
    """Read the stacks of all Python processes of a run, and keep them with the run.

    Raises UsageError if the script is not running, ImportedRun, TargetUnreachable, StorageError, or another
    WorkbenchError if the processes cannot be read.
    """
    record, run = directory.own_record(), directory.run()
    if why := why_no_stacks(run):
        raise UsageError(
            f"cannot read the stacks of run {run.run_id}: {why}",
            remedy="Wait until the script of the run is running. If the run has ended, "
            f"`workbench-tui experiment stacks -r {run.run_id} --last` prints the last stacks that were read.",
        )
    target = target_for(record.spec.target)
    begin, started = time.time(), time.monotonic()
    with contextlib.closing(target), trace.for_run(directory.path):
        reading = target.read_stacks(record.spec)
    _refuse_unread(reading, run, target.host.label)
    processes = tuple(
        process._replace(stacks=process.stacks._replace(command=tuple(mask_words(process.stacks.command))))
        for process in name_processes(reading.processes)
    )
    return _keep(directory, Stacks(run.run_id, begin, round(time.monotonic() - started, 3), reading.total, processes))


def _refuse_unread(reading: Reading, run: Run, label: str) -> None:
    """Raise WorkbenchError if no process was found, or if none could be read."""
    if not reading.processes:
        raise WorkbenchError(
            f"run {run.run_id} has no Python process on {label}",
            remedy="Stacks can be read only while a Python process of the run is running. If the script is starting, "
            "try again.",
        )
    problems = [process.problem for process in reading.processes]
    if not all(problems):
        return
    if _REFUSED not in problems[0]:
        raise WorkbenchError(
            f"py-spy cannot read the processes of run {run.run_id}: {problems[0]}",
            remedy="Try again, because a process may have been starting or ending. If the error remains, py-spy may be "
            f"too old for the interpreter of the run. To update it: `{package_command('py-spy')}`.",
        )
    if reading.scope > 0:
        raise WorkbenchError(
            f"{label} does not permit a program to read another process (kernel.yama.ptrace_scope is {reading.scope})",
            remedy="Run `sudo sysctl kernel.yama.ptrace_scope=0` on that machine. The change lasts until a restart."
            if reading.scope < LOCKED_SCOPE
            else "Set it to 0 in a file in /etc/sysctl.d on that machine, and restart the machine: a running machine "
            "cannot change the value 3.",
        )
    raise WorkbenchError(
        f"{label} does not permit py-spy to read the processes of the run",
        remedy="Check that the processes belong to you, and that no security profile (seccomp, AppArmor, SELinux) of "
        "that machine or its Docker engine forbids process_vm_readv.",
    )


# --- Files


def _keep(directory: RunDirectory, stacks: Stacks) -> Stacks:
    """Write the stacks to a file, and return them. The last processes are omitted if the file would be too large."""
    while len(data := json_bytes(stacks_record(stacks), indent=1)) > LARGEST:
        stacks = stacks._replace(processes=stacks.processes[: len(stacks.processes) // 2])
    moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(stacks.time))
    with storage_errors("write", directory.file(STACKS)):
        make_folders(directory.path, STACKS)
        directory.write(f"{STACKS}/{moment}-{int(stacks.time % 1 * 1000):03}.json", data)
        for name in _names(directory.path)[:-MOST_KEPT]:
            unlink_below(directory.path, f"{STACKS}/{name}")
    return stacks


def _names(directory: str) -> list[str]:
    """Return the names of the files in the folder `stacks/`, oldest first."""
    try:
        names = os.listdir(os.path.join(directory, STACKS))
    except OSError:
        return []
    return sorted(name for name in names if name.endswith(".json") and name[:1].isdigit())


def last_stacks(directory: str) -> Stacks:
    """Return the last stacks of the run at `directory`. Raises RunNotFound if none are kept, or StorageError."""
    names, run_id = _names(directory), os.path.basename(directory)
    if not names:
        raise RunNotFound(
            f"run {run_id} has no stacks",
            remedy=f"While the run is running, `workbench-tui experiment stacks -r {run_id}` reads them.",
        )
    return read_stacks(directory, f"{STACKS}/{names[-1]}")


def read_stacks(directory: str, path: str) -> Stacks:
    """Return the stacks in a file of the run at `directory`. Raises StorageError."""
    with storage_errors("read", os.path.join(directory, path)):
        data = read_below(directory, path, LARGEST)
    try:
        record = parse_json(data)
        processes = tuple(map(_process_from_record, record["processes"]))
        moment = datetime.fromisoformat(record["time_utc"]).timestamp()
        seconds, total = float(record["seconds"]), int(record["process_count"])
        return Stacks(str(record["run_id"]), moment, seconds, total, processes)
    except _INVALID as error:
        raise StorageError(
            "this file does not contain valid stacks", remedy="Remove the file.", file=os.path.join(directory, path)
        ) from error


def stacks_record(stacks: Stacks) -> dict[str, Any]:
    """Return the stacks as values for JSON."""
    return {
        "run_id": stacks.run_id,
        "time_utc": utc(stacks.time),
        "seconds": stacks.seconds,
        "process_count": stacks.total,
        "processes": [_process_record(process) for process in stacks.processes],
    }


def _process_record(named: NamedProcess) -> dict[str, Any]:
    process = named.stacks
    threads = [
        {**thread._asdict(), "frames": [frame._asdict() for frame in thread.frames]} for thread in process.threads
    ]
    rest = {name: value for name, value in process._asdict().items() if name not in ("rank", "task", "threads")}
    return {"role": named.title, "rank": named.rank, **rest, "command": list(process.command), "threads": threads}


def _process_from_record(record: dict[str, Any]) -> NamedProcess:
    threads = tuple(
        ThreadStack(
            str(thread["name"]),
            bool(thread["is_main"]),
            bool(thread["is_active"]),
            bool(thread["has_gil"]),
            tuple(
                Frame(str(frame["function"]), str(frame["file"]), str(frame["shown"]), int(frame["line"]))
                for frame in thread["frames"]
            ),
        )
        for thread in record["threads"]
    )
    rank = int(record["rank"]) if record["rank"] is not None else None
    command, problem = tuple(map(str, record["command"])), str(record["problem"])
    node = str(record["node"])
    process = ProcessStacks(int(record["pid"]), int(record["parent"]), node, rank, None, command, threads, problem)
    return NamedProcess(str(record["role"]), rank, process)


# --- Text


def rank_places(processes: Iterable[NamedProcess]) -> list[tuple[str, tuple[Frame, ...]]]:
    """Group the ranks by the calls in which their main threads are, most frequent first.

    A group is a text such as `ranks 0-2, 5` and one or two calls: the innermost call in a file of the project and, if
    this call has called a library, the innermost call. The list is empty for fewer than two ranks. If training hangs,
    the cause is often a rank that is in a different call.
    """
    ranks: dict[tuple[Frame, ...], list[int]] = {}
    for process in processes:
        frames = next((thread.frames for thread in process.stacks.threads if thread.is_main), ())
        if process.rank is not None and frames:
            own = next((frame for frame in frames if not is_library(frame)), frames[0])
            ranks.setdefault(tuple(dict.fromkeys((own, frames[0]))), []).append(process.rank)
    if sum(map(len, ranks.values())) < 2:
        return []
    places = sorted(ranks.items(), key=lambda item: (-len(item[1]), item[1]))
    return [
        (f"{'ranks' if len(numbers) > 1 else 'rank'} {number_ranges(numbers)}", frames) for frames, numbers in places
    ]


def is_library(frame: Frame) -> bool:
    """Return True for a call in the standard library or in an installed package."""
    return any(part in frame.file for part in _LIBRARIES)


def thread_state(thread: ThreadStack) -> str:
    """Return the state of a thread, such as `waiting` or `running, holds the GIL`."""
    return ("running" if thread.is_active else "waiting") + (", holds the GIL" if thread.has_gil else "")


def place_of(frame: Frame) -> str:
    """Return the file and line of a call."""
    return f"{frame.shown}:{frame.line}"


def process_title(named: NamedProcess, *, has_nodes: bool) -> str:
    """Return the role and the ID of a process, and with `has_nodes` its node."""
    node = f" on {named.stacks.node}" if has_nodes else ""
    return f"{named.title}, process {named.stacks.pid}{node}"


def has_several_nodes(processes: Iterable[NamedProcess]) -> bool:
    """Return True if the processes are on more than one machine."""
    return len({process.stacks.node for process in processes}) > 1


def left_out_text(stacks: Stacks) -> str:
    """Return a text such as `2 more processes not read`, or ""."""
    left = stacks.total - len(stacks.processes)
    return f"{counted(left, 'more process')} not read" if left > 0 else ""
