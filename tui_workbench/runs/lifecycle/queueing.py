"""Runs that wait for their turn: on a target that takes only so many at a time, or in a sweep.

Nobody waits in a process: a run in line is its directory with the file `waiting` in it, and a link to it in a folder
of the user's that all projects share. Whoever ends a run lets the next ones begin, and whoever adopts runs makes
up for those who were killed. Turns are given under one lock, in the order of submission; the removal of `waiting` is
what gives one. A run that nothing limits never comes here.
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tui_workbench.core import locks
from tui_workbench.core.directories import user_state_directory
from tui_workbench.core.errors import ImportedRun, RunNotFound, StorageError, WorkbenchError, storage_errors
from tui_workbench.core.files import unlink_below
from tui_workbench.core.model import RunState
from tui_workbench.runs.lifecycle.limits import (
    STEP,
    Demand,
    label_of,
    read_demand,
    reason_to_wait,
    target_key,
    write_demand,
)
from tui_workbench.runs.lifecycle.starting import detach, end_waiting
from tui_workbench.runs.store.rundir import WAITING, ControllerLock, RunDirectory

FOLDER = "queue"
IN_LINE, GOING = "waiting", "going"


class _Ticket(NamedTuple):
    name: str
    directory: RunDirectory
    demand: Demand


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
                demand = read_demand(directory)
            except (OSError, ValueError, TypeError):
                continue
            if demand.machine != here and not any(map(_is_looked_after, self._tickets(GOING, demand.machine))):
                write_demand(directory, demand._replace(machine=here))
                taken = True
        return taken

    def count_others(self, directory: RunDirectory, active: Iterable[str]) -> None:
        """Let other runs of the project count that began on the same target before anything limited it."""
        demand = read_demand(directory)
        for run_id in active if demand.target else ():
            other = RunDirectory(os.path.join(os.path.dirname(directory.path), run_id))
            with contextlib.suppress(ImportedRun, RunNotFound, StorageError, OSError):
                record = other.own_record()
                if not other.is_limited and target_key(record.spec.target) == demand.target:
                    label = label_of(record.spec, record.run_number)
                    write_demand(other, demand._replace(group="", group_limit=0, label=label, places=1))
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
                demand = read_demand(directory)
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
