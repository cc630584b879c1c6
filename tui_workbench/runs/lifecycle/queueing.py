"""Runs that wait for their turn: on a target that takes only so many at a time, or in a sweep.

Nobody waits in a process: a run in line is its directory with the file `waiting` in it, and a link to it in a folder
of the user's that all projects share. Whoever ends a run lets the next ones begin, and whoever adopts runs makes
up for those who were killed. Turns are given under one lock, in the order of submission; the removal of `waiting` is
what gives one. A run that nothing limits never comes here.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tui_workbench.core import locks
from tui_workbench.core.directories import user_state_directory
from tui_workbench.core.errors import ImportedRun, RunNotFound, StorageError, WorkbenchError, storage_errors
from tui_workbench.core.files import append_below, load_json, unlink_below, write_below
from tui_workbench.core.model import ComputeTarget, RunRequest, RunSpec, RunState, Step
from tui_workbench.runs.lifecycle.building import keep_environment
from tui_workbench.runs.lifecycle.starting import detach, end_waiting
from tui_workbench.runs.store.rundir import TURN, WAITING, ControllerLock, RunDirectory

FOLDER = "queue"
IN_LINE, GOING = "waiting", "going"


class _Ticket(NamedTuple):
    name: str
    directory: RunDirectory
    demand: Demand


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
    _write_demand(directory, demand)
    keep_environment(directory, os.environ)
    with storage_errors("write", directory.file(WAITING)):
        append_below(directory.path, WAITING, b"", anew=True)


def enter(directory: RunDirectory, lock: ControllerLock, active: Iterable[str]) -> bool:
    """Put a new run in line; True when it is its turn already, and the caller's to start it. Else its lock is released.

    `active` are the ids of the project's runs that go on: those on the same target count, also when nothing limited it
    as they began. Raises StorageError.
    """
    with _line() as line:
        line.add(directory)
        line.count_others(directory, active)
        line.advance(own=directory.path)
        if not directory.is_waiting:
            return True
        # Before anybody else can move the line: a run that is held by somebody is not begun.
        lock.release()
        return False


def resume(waiting: Iterable[RunDirectory]) -> list[str]:
    """See to it that runs that wait are in line and that the line moves. Returns the ids of those whose turn has come.

    Raises StorageError.
    """
    directories = list(waiting)
    with _line() as line:
        unheard = any(directory.cancel_requested for directory in directories)
        if line.add(*directories) or line.take_in(directories) or unheard or line.is_stalled():
            line.advance()
    return [directory.run_id for directory in directories if not directory.is_waiting]


def give_controller(directory: RunDirectory) -> bool:
    """See to it that a run has a controller, or its place in the line. Returns True when it had none.

    Raises ImportedRun, and WorkbenchError when it has none and can have none.
    """
    directory.own_record()
    if directory.is_waiting:
        with contextlib.suppress(WorkbenchError):  # the line cannot be used now: the run waits on
            return bool(resume([directory]))
        return False
    lock = ControllerLock.acquire(directory)
    if lock is not None:
        detach(directory, lock)
    return lock is not None


def leave(directory: RunDirectory) -> None:
    """After the end of a run: let those begin that waited for it. Raises StorageError."""
    if directory.is_limited:
        with _line() as line:
            line.advance()


@contextlib.contextmanager
def _line() -> Iterator[_Line]:
    """All runs of this user that something limits, while nobody else moves them. Raises StorageError."""
    folder = os.path.join(user_state_directory(), FOLDER)
    path = os.path.join(folder, "lock")
    with contextlib.ExitStack() as stack:
        with storage_errors("use", path):
            for name in (IN_LINE, GOING):
                os.makedirs(os.path.join(folder, name), mode=0o700, exist_ok=True)
            descriptor = locks.open_lock(path)
            stack.callback(os.close, descriptor)
            locks.lock(descriptor)
        yield _Line(folder)


class _Line:
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def add(self, *directories: RunDirectory) -> bool:
        """Put runs in line that are not; True when there was one."""
        added = False
        for directory in directories:
            if not directory.is_waiting:
                continue  # its turn came meanwhile
            link = os.path.join(self._folder, IN_LINE, _ticket_name(directory))
            with storage_errors("write", link), contextlib.suppress(FileExistsError):
                os.symlink(directory.path, link)
                added = True
        return added

    def take_in(self, directories: Iterable[RunDirectory]) -> bool:
        """Take in runs that wait on another machine on which nothing of this user goes on any more.

        It has another name now, or is a container that was made anew. True when there was one.
        """
        here = os.uname().nodename
        taken = False
        for directory in directories:
            try:
                demand = _read_demand(directory)
            except (OSError, ValueError, TypeError):
                continue
            if demand.machine != here and not any(map(_is_looked_after, self._tickets(GOING, demand.machine))):
                _write_demand(directory, demand._replace(machine=here))
                taken = True
        return taken

    def count_others(self, directory: RunDirectory, active: Iterable[str]) -> None:
        """Let other runs of the project count that began on the same target before anything limited it."""
        demand = _read_demand(directory)
        for run_id in active if demand.target else ():
            other = RunDirectory(os.path.join(os.path.dirname(directory.path), run_id))
            with contextlib.suppress(ImportedRun, RunNotFound, StorageError, OSError):
                record = other.own_record()
                if not other.is_limited and target_key(record.spec.target) == demand.target:
                    label = label_of(record.spec, record.run_number)
                    _write_demand(other, demand._replace(group="", group_limit=0, label=label, places=1))
                    os.symlink(other.path, os.path.join(self._folder, GOING, _ticket_name(other)))

    def is_stalled(self) -> bool:
        """True when a run that has its turn has ended, or nobody looks after it: nothing would move the line."""
        going = list(self._tickets(GOING))
        return not going or any(not _is_looked_after(ticket) for ticket in going)

    def advance(self, own: str = "") -> None:
        """Give turns to those for whom there is room. The run at `own` is then started by the caller."""
        going = [ticket for ticket in self._tickets(GOING) if self._still_goes(ticket, own)]
        waiting: list[_Ticket] = []
        for ticket in self._tickets(IN_LINE):
            if ticket.directory.is_waiting:
                waiting.append(ticket)
            else:  # it was given its turn by somebody who was killed just then
                self._move(ticket)
                if self._still_goes(ticket, own):
                    going.append(ticket)
        by_age = sorted((*going, *waiting), key=lambda each: each.name)
        limits = {ticket.demand.target: ticket.demand.limit for ticket in by_age}
        held_up: list[_Ticket] = []
        for ticket in waiting:
            if self._is_over(ticket):
                continue
            reason = reason_to_wait(ticket.demand, _demands(going), _demands(held_up), limits)
            if not reason and self._begin(ticket, own):
                going.append(ticket)
                continue
            held_up.append(ticket)
            if reason and ticket.directory.status().reason != reason:
                ticket.directory.append_event("state", state=RunState.QUEUED, reason=reason)

    def _begin(self, ticket: _Ticket, own: str) -> bool:
        """Give a run its turn; False when somebody has hold of it, who then sees to it."""
        directory = ticket.directory
        if directory.path == own:
            self._give_turn(ticket)
            return True
        lock = ControllerLock.acquire(directory)
        if lock is None:
            return False
        with lock:
            self._give_turn(ticket)
            _detach(directory, lock)
        return True

    def _give_turn(self, ticket: _Ticket) -> None:
        path = ticket.directory.file(WAITING)
        with storage_errors("write", path):
            since = os.lstat(path).st_mtime
            unlink_below(ticket.directory.path, WAITING)
        self._move(ticket)
        seconds = round(max(0.0, time.time() - since), 6)
        ticket.directory.append_event("step", step=STEP, status="done", seconds=seconds)

    def _still_goes(self, ticket: _Ticket, own: str) -> bool:
        """True for a run that has not ended; it is given a controller when it has none."""
        if ticket.directory.status().end:
            self._drop(GOING, ticket.name)
            return False
        if ticket.directory.path != own and not _is_looked_after(ticket):
            lock = ControllerLock.acquire(ticket.directory)
            if lock is not None:
                _detach(ticket.directory, lock)
        return True

    def _is_over(self, ticket: _Ticket) -> bool:
        """True for a run in line that has ended, or does now because somebody wanted it to."""
        directory = ticket.directory
        if directory.cancel_requested and (lock := ControllerLock.acquire(directory)) is not None:
            with lock:
                end_waiting(directory, directory.own_record())
        if not directory.status().end:
            return False
        self._drop(IN_LINE, ticket.name)
        return True

    def _tickets(self, folder: str, machine: str = "") -> Iterator[_Ticket]:
        """The runs of a machine, by default this one, in order; links to what is no run any more are removed."""
        machine = machine or os.uname().nodename
        for name in sorted(os.listdir(os.path.join(self._folder, folder))):
            try:
                directory = RunDirectory(os.readlink(os.path.join(self._folder, folder, name)))
                demand = _read_demand(directory)
            except (OSError, ValueError, TypeError):
                self._drop(folder, name)
                continue
            if demand.machine == machine:
                yield _Ticket(name, directory, demand)

    def _move(self, ticket: _Ticket) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.rename(os.path.join(self._folder, IN_LINE, ticket.name), os.path.join(self._folder, GOING, ticket.name))

    def _drop(self, folder: str, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._folder, folder, name))


def _write_demand(directory: RunDirectory, demand: Demand) -> None:
    with storage_errors("write", directory.file(TURN)):
        write_below(directory.path, TURN, json.dumps(demand._asdict()).encode() + b"\n")


def _read_demand(directory: RunDirectory) -> Demand:
    """Raises OSError, ValueError or TypeError when there is none, or the run is not this user's own."""
    if not directory.is_own:
        raise PermissionError(f"{directory.path} is not a run of this user")
    stored = load_json(directory.file(TURN))
    return Demand(*stored) if isinstance(stored, list) else Demand(**stored)  # a list: of earlier versions


def _ticket_name(directory: RunDirectory) -> str:
    """Sorts by the time of submission, which the run's id ends with; of two projects of one name, no two are equal."""
    moment = directory.run_id.rpartition("_")[2]
    return f"{moment:0>16.16}-{zlib.crc32(os.fsencode(directory.path)):08x}"


def _demands(tickets: list[_Ticket]) -> list[Demand]:
    return [ticket.demand for ticket in tickets]


def _is_looked_after(ticket: _Ticket) -> bool:
    return not ticket.directory.status().end and ControllerLock.holder(ticket.directory) != 0


def _detach(directory: RunDirectory, lock: ControllerLock) -> None:
    with contextlib.suppress(WorkbenchError):  # no further process can be: whoever looks next tries again
        detach(directory, lock)


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
