"""The timekeeper: a detached process that ends runs of agents that exceed their time limit.

The controller of a run ends it when its time is over, but the files of the run tell the controller what to do. If they
were changed, moved or removed, nothing drives the run. The timekeeper uses only the user's registry of these runs. It
leaves some time to the controller, and ends when no run of an agent is active.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time

from tui_workbench.core import locks, trace
from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.core.processes import start_detached
from tui_workbench.runs.agents import ledger
from tui_workbench.runs.agents.ledger import Use
from tui_workbench.runs.lifecycle.agent_ends import end_run_of_agent
from tui_workbench.runs.lifecycle.starting import close_other_descriptors
from tui_workbench.runs.store.rundir import DEFAULT_GRACE

MODULE = "tui_workbench.runs.agents.timekeeper"

MARGIN_SECONDS = 60.0
"""Time after the end of a run's time limit in which its controller can end it."""

LOOK_SECONDS = 5.0
RETRY_SECONDS = 60.0
"""Time between two attempts to end a run, for example on a machine that does not answer."""


def ensure() -> None:
    """Start the timekeeper if a run needs it and none is running. The caller holds `ledger.exclusive`.

    Raises WorkbenchError if it cannot be started.
    """
    if not unfinished() or is_running():
        return
    try:
        start_detached([sys.executable, "-P", "-m", MODULE], dict(os.environ))
    except OSError as error:
        raise WorkbenchError(
            f"cannot start the process that enforces the time limits of agents: {error.strerror}",
            remedy="Close other programs, or raise the limit of processes with `ulimit -u`, then try again.",
        ) from error


def resume() -> None:
    """Start the timekeeper if a run needs it, for example after a restart of this machine. Errors are ignored."""
    with contextlib.suppress(WorkbenchError):
        if ledger.exists():
            with ledger.exclusive():
                ensure()


def is_running() -> bool:
    """Return True if the timekeeper is running."""
    if not os.path.exists(_lock_path()):
        return False
    descriptor = locks.open_lock(_lock_path())
    try:
        return locks.is_locked(descriptor)
    finally:
        os.close(descriptor)


def unfinished() -> list[Use]:
    """Return the uses of runs whose end is not known. Raises StorageError or ConfigurationError."""
    return [use for use in ledger.read_uses() if use.run and not use.has_ended]


def due(now: float) -> list[Use]:
    """Return the uses of runs that must be ended at the time `now`."""
    return [use for use in unfinished() if not use.is_waiting and now >= use.deadline + MARGIN_SECONDS]


class Timekeeper:
    """Ends the runs that are due, each in a thread, because a machine may not answer."""

    def __init__(self) -> None:
        self._threads: dict[str, threading.Thread] = {}
        self._retry_at: dict[str, float] = {}

    def look(self, now: float) -> None:
        """Begin to end all runs that are due at the time `now`."""
        for use in due(now):
            thread = self._threads.get(use.run)
            if (thread is None or not thread.is_alive()) and time.monotonic() >= self._retry_at.get(use.run, 0.0):
                self._retry_at[use.run] = time.monotonic() + RETRY_SECONDS
                self._threads[use.run] = threading.Thread(target=_end, args=(use,), daemon=True)
                self._threads[use.run].start()

    def wait(self) -> None:
        """Wait until no run is being ended."""
        for thread in self._threads.values():
            thread.join()


def _end(use: Use) -> None:
    with contextlib.suppress(WorkbenchError, OSError), trace.for_agent(use.agent):
        end_run_of_agent(use.run, DEFAULT_GRACE)


def _lock_path() -> str:
    return os.path.join(ledger.agents_directory(), "timekeeper.lock")


def main() -> None:
    """Enforce the time limits until no run of an agent is active."""
    close_other_descriptors(-1)
    trace.forget_agent()
    os.chdir("/")
    descriptor = locks.open_lock(_lock_path())
    if not locks.try_lock(descriptor):
        return
    timekeeper = Timekeeper()
    while ledger.exists():
        try:
            timekeeper.look(time.time())
            with ledger.exclusive():
                # A submission holds the same lock until its run is in the list and `ensure` has returned. So either
                # this process sees the run, or `ensure` finds that this process has released its own lock.
                if not unfinished():
                    os.close(descriptor)
                    return
        except ConfigurationError:
            return  # the list is damaged, and no run is started until the user has removed it
        except WorkbenchError:
            pass  # the disk may be full
        time.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    main()
