"""Find and end the processes of a run on this machine.

A process belongs to a run if its environment contains the run's ID, which children inherit, or if it is in the session
of the run's supervisor. A process that drops the variable and leaves the session no longer belongs to the run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable

from tui_workbench.core import system
from tui_workbench.core.waiting import Interrupted, wait_ready

RUN_ID_VARIABLE = "WORKBENCH_RUN_ID"
RUN_DIRECTORY_VARIABLE = "WORKBENCH_RUN_DIRECTORY"

POLL_SECONDS = 0.02
"""Seconds between two searches for processes that are being ended."""

SLOW_POLL_SECONDS = 0.05
"""Longest time in seconds between two searches if the system cannot report the end of a process."""


def processes_of_run(run_id: str, session: int = 0, since: int = 0, directory: str = "") -> set[int]:
    """Return the IDs of the run's live processes, except for this process and the processes of other users.

    `session` is the process ID of the supervisor while it lives. `since` is its start time, as in `system.Process`:
    older processes do not belong to the run. `directory` is the run's directory. It distinguishes runs with the same
    ID, which two projects with the same name may start in the same millisecond.
    """
    mark = b"\0%s=%s\0" % (RUN_ID_VARIABLE.encode(), run_id.encode("utf-8", "surrogateescape"))
    pids = set()
    for pid, its_session, start in system.live_processes():
        if start < since:
            continue
        try:
            in_session = session and its_session == session and _is_signalable(pid)
            if in_session or _has_mark(b"\0" + system.environment_of(pid), mark, directory):
                pids.add(pid)
        except (OSError, IndexError, ValueError):
            continue  # it has ended, or belongs to another user
    return pids


def end_processes(find: Callable[[], set[int]], grace: float) -> bool:
    """Send SIGTERM to the processes from `find`, and SIGKILL after `grace` seconds; return True if SIGKILL was needed.

    Returns when `find` returns no process, so it waits for processes in uninterruptible sleep.
    """
    asked: set[int] = set()
    deadline = time.monotonic() + grace
    forced = False
    while left := find():
        if time.monotonic() < deadline:
            ask_to_end(left - asked)
            asked |= left
        else:
            forced = True
            _signal(left, signal.SIGKILL)
        wait_for_any(left, min(POLL_SECONDS, max(0.0, deadline - time.monotonic())) or POLL_SECONDS)
    return forced


def ask_to_end(pids: set[int]) -> None:
    """Send SIGTERM to processes. A stopped process receives it when it continues, so it is also continued."""
    _signal(pids, signal.SIGTERM)
    _signal(pids, signal.SIGCONT)


def wait_for_any(pids: Iterable[int], seconds: float | None = None, interrupted: int = -1) -> None:
    """Wait until one of the processes has ended, or for `seconds`. May return early on some systems.

    Raises Interrupted as soon as the descriptor `interrupted` becomes readable.
    """
    with contextlib.ExitStack() as stack:
        watched = [interrupted] if interrupted >= 0 else []
        for pid in pids:
            try:
                watched.append(system.exit_descriptor(pid))
            except OSError:  # it has ended, or the system has no such descriptors
                seconds = SLOW_POLL_SECONDS if seconds is None else min(seconds, SLOW_POLL_SECONDS)
            else:
                stack.callback(os.close, watched[-1])
        if interrupted in wait_ready(watched, timeout=seconds):
            raise Interrupted


def _has_mark(environment: bytes, mark: bytes, directory: str) -> bool:
    """Return True if the initial environment of a process contains the run's ID and directory."""
    if mark not in environment:
        return False
    _, named, rest = environment.partition(b"\0%s=" % RUN_DIRECTORY_VARIABLE.encode())
    try:
        # Compare the identity of the folders: a project may have several paths, or may have been renamed.
        return not (named and directory) or os.path.samefile(os.fsdecode(rest.partition(b"\0")[0]), directory)
    except OSError:
        return True


def _is_signalable(pid: int) -> bool:
    """Return False for a process of another user, such as `sudo`, which ends its children itself."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return False
    return True


def _signal(pids: set[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue
