"""The queue of runs: targets and sweeps limit the number of their active runs.

No process watches the queue. A queued run has a file `waiting` in its directory, and a link in a folder of the user
that all projects share. A process that ends a run starts the next runs; if it was killed, the next process that resumes
runs starts them. One lock protects the queue. Runs are tried in the order of their submission. A run that must wait
does not delay later runs that the limits allow. A run counts as started when its file `waiting` is removed. Runs that
have neither a limit nor a dependency are never queued.
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
from tui_workbench.runs.lifecycle import dependencies
from tui_workbench.runs.lifecycle.handover import hand_over
from tui_workbench.runs.lifecycle.limits import (
    STEP,
    Demand,
    label_of,
    read_demand,
    reason_to_wait,
    target_key,
    write_demand,
)
from tui_workbench.runs.lifecycle.starting import end_waiting
from tui_workbench.runs.store.rundir import WAITING, ControllerLock, RunDirectory
from tui_workbench.targets.registry import target_for

FOLDER = "queue"
QUEUED, ACTIVE = "waiting", "going"  # names of folders


class _Ticket(NamedTuple):
    name: str
    directory: RunDirectory
    demand: Demand


def enter(directory: RunDirectory, lock: ControllerLock, active: Iterable[str]) -> bool:
    """Queue a new run. Return True if the caller must start it now; otherwise, its lock is released.

    `active` are the IDs of the active runs of the project. Runs on the same target count, even if no limit applied when
    they started. Raises StorageError.
    """
    with _locked_queue() as queue:
        queue.add(directory)
        queue.count_unlimited(directory, active)
        queue.advance(own=directory.path)
        if not directory.is_waiting:
            return True
        # Release the lock before that of the queue, because the queue does not start a run whose lock is held.
        lock.release()
        return False


def resume(waiting: Iterable[RunDirectory]) -> list[str]:
    """Add waiting runs that are missing from the queue, advance it if needed, and return the IDs of started runs.

    Raises StorageError.
    """
    directories = list(waiting)
    with _locked_queue() as queue:
        is_canceled = any(directory.cancel_requested for directory in directories)
        if queue.add(*directories) or queue.claim(directories) or is_canceled or queue.is_stalled():
            queue.advance()
    return [directory.run_id for directory in directories if not directory.is_waiting]


def leave(directory: RunDirectory) -> None:
    """Start the queued runs that can start after the end of this run. Raises StorageError."""
    if directory.others_may_wait:
        with _locked_queue() as queue:
            queue.advance()


def lift_sweep_limit(directory: RunDirectory) -> None:
    """Remove the limit of an active run's sweep, and start its queued runs. A scheduler then limits the runs.

    Raises StorageError.
    """
    with _locked_queue() as queue:
        queue.lift_limit(directory)


@contextlib.contextmanager
def _locked_queue() -> Iterator[_Queue]:
    """Lock the user's queue. Raises StorageError."""
    folder = os.path.join(user_state_directory(), FOLDER)
    path = os.path.join(folder, "lock")
    with contextlib.ExitStack() as stack:
        with storage_errors("open", path):
            for name in (QUEUED, ACTIVE):
                os.makedirs(os.path.join(folder, name), mode=0o700, exist_ok=True)
            descriptor = locks.open_lock(path)
            stack.callback(os.close, descriptor)
            locks.lock(descriptor)
        yield _Queue(folder)


class _Queue:
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def add(self, *directories: RunDirectory) -> bool:
        """Queue waiting runs. Return True if at least one was not queued before. Raises StorageError."""
        added = False
        for directory in directories:
            if not directory.is_waiting:
                continue  # it has started
            link = os.path.join(self._folder, QUEUED, _ticket_name(directory))
            with storage_errors("write", link), contextlib.suppress(FileExistsError):
                os.symlink(directory.path, link)
                added = True
        return added

    def claim(self, directories: Iterable[RunDirectory]) -> bool:
        """Move runs to the queue of this machine if no active run of the machine that queued them has a controller.

        The other machine was probably renamed, or was a container that was replaced. Return True if a run was moved.
        """
        here = os.uname().nodename
        claimed = False
        for directory in directories:
            try:
                demand = read_demand(directory)
            except (OSError, ValueError, TypeError):
                continue
            if demand.machine != here and not any(map(_has_controller, self._tickets(ACTIVE, demand.machine))):
                write_demand(directory, demand._replace(machine=here))
                claimed = True
        return claimed

    def count_unlimited(self, directory: RunDirectory, active: Iterable[str]) -> None:
        """Add active runs of the project on the same target that started when no limit applied."""
        demand = read_demand(directory)
        for run_id in active if demand.target else ():
            other = RunDirectory(os.path.join(os.path.dirname(directory.path), run_id))
            with contextlib.suppress(ImportedRun, RunNotFound, StorageError, OSError):
                record = other.own_record()
                if not other.is_limited and target_key(record.spec.target) == demand.target:
                    label = label_of(record.spec, record.run_number)
                    write_demand(other, demand._replace(group="", group_limit=0, label=label, places=1))
                    os.symlink(other.path, os.path.join(self._folder, ACTIVE, _ticket_name(other)))

    def lift_limit(self, directory: RunDirectory) -> None:
        """Remove the limit of the sweep of a run, and start the runs that waited because of this limit."""
        group = read_demand(directory).group
        if not group:
            return
        for ticket in (*self._tickets(ACTIVE), *self._tickets(QUEUED)):
            if ticket.demand.group == group:
                write_demand(ticket.directory, ticket.demand._replace(group="", group_limit=0))
        self.advance()

    def is_stalled(self) -> bool:
        """Return True if the queue may be stalled: no run is active, or an active run has no controller."""
        active = list(self._tickets(ACTIVE))
        return not active or any(not _has_controller(ticket) for ticket in active)

    def advance(self, own: str = "") -> None:
        """Start as many queued runs as the limits allow. The caller starts the run at `own`."""
        active = [ticket for ticket in self._tickets(ACTIVE) if self._is_active(ticket, own)]
        waiting: list[_Ticket] = []
        for ticket in self._tickets(QUEUED):
            if ticket.directory.is_waiting:
                waiting.append(ticket)
            else:  # the process that started the run was killed
                self._move(ticket)
                if self._is_active(ticket, own):
                    active.append(ticket)
        by_age = sorted((*active, *waiting), key=lambda entry: entry.name)
        # The limit of the newest run applies to all runs on its target, because the limit may have been changed.
        limits = {ticket.demand.target: ticket.demand.limit for ticket in by_age}
        held_up: list[_Ticket] = []
        for ticket in waiting:
            if self._is_over(ticket):
                continue
            if reason := dependencies.reason_to_wait(ticket.demand):
                _explain(ticket, reason)  # other runs do not wait for this run
                continue
            reason = reason_to_wait(ticket.demand, _demands(active), _demands(held_up), limits)
            if not reason and self._begin(ticket, own):
                active.append(ticket)
                continue
            held_up.append(ticket)
            if reason:
                _explain(ticket, reason)

    def _begin(self, ticket: _Ticket, own: str) -> bool:
        """Start a run. Return False if another process holds its lock."""
        directory = ticket.directory
        if directory.path == own:
            self._dequeue(ticket)
            return True
        lock = ControllerLock.acquire(directory)
        if lock is None:
            return False
        with lock:
            self._dequeue(ticket)
            _try_to_hand_over(directory, lock)
        return True

    def _dequeue(self, ticket: _Ticket) -> None:
        path = ticket.directory.file(WAITING)
        # The run counts as started when this file is removed. If this process is killed before it moves the link, the
        # next `advance` moves it.
        with storage_errors("write", path):
            since = os.lstat(path).st_mtime
            unlink_below(ticket.directory.path, WAITING)
        self._move(ticket)
        seconds = round(max(0.0, time.time() - since), 6)
        ticket.directory.append_event("step", step=STEP, status="done", seconds=seconds)

    def _is_active(self, ticket: _Ticket, own: str) -> bool:
        """Return True if a run has not ended, and start a controller if it has none."""
        if ticket.directory.status().end:
            self._drop(ACTIVE, ticket.name)
            return False
        if ticket.directory.path != own and not _has_controller(ticket):
            lock = ControllerLock.acquire(ticket.directory)
            if lock is not None:
                _try_to_hand_over(ticket.directory, lock)
        return True

    def _is_over(self, ticket: _Ticket) -> bool:
        """End a queued run that was canceled or can never start. Return True if the run has ended."""
        directory = ticket.directory
        is_canceled, cause = directory.cancel_requested, dependencies.obstacle(ticket.demand)
        is_over = (is_canceled or cause is not None) and not directory.status().end
        if is_over and (lock := ControllerLock.acquire(directory)) is not None:
            with lock:
                end_waiting(directory, directory.own_record(), None if is_canceled else cause)
        if not directory.status().end:
            return False
        self._drop(QUEUED, ticket.name)
        return True

    def _tickets(self, folder: str, machine: str = "") -> Iterator[_Ticket]:
        """Yield the runs of a machine (default: this machine) in order, and remove stale links."""
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
            os.rename(os.path.join(self._folder, QUEUED, ticket.name), os.path.join(self._folder, ACTIVE, ticket.name))

    def _drop(self, folder: str, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._folder, folder, name))


def _ticket_name(directory: RunDirectory) -> str:
    """Return a unique name that sorts by the time of submission. The run ID ends with this time."""
    moment = directory.run_id.rpartition("_")[2]
    return f"{moment:0>16.16}-{zlib.crc32(os.fsencode(directory.path)):08x}"


def _demands(tickets: list[_Ticket]) -> list[Demand]:
    return [ticket.demand for ticket in tickets]


def _explain(ticket: _Ticket, reason: str) -> None:
    """Record the reason why a run waits, if it has changed."""
    if ticket.directory.status().reason != reason:
        ticket.directory.append_event("state", state=RunState.QUEUED, reason=reason)


def _has_controller(ticket: _Ticket) -> bool:
    return not ticket.directory.status().end and ControllerLock.holder(ticket.directory) != 0


def _try_to_hand_over(directory: RunDirectory, lock: ControllerLock) -> None:
    with contextlib.suppress(WorkbenchError), lock:  # no process could be started; the next caller retries
        hand_over(directory, lock, target_for(directory.own_record().spec.target))
