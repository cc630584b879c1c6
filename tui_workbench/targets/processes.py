"""Which processes of this machine belong to a run, and how to end them all.

A process belongs to a run when it carries the run's id in its environment (children inherit it, also those that start
a session of their own, as torchrun's workers do), or is in the session of the run's supervisor. Only the second can
be seen without /proc.
"""

from __future__ import annotations

import os
import signal
import time

from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

RUN_ID_VARIABLE = "WORKBENCH_RUN_ID"

_children: set[int] = set()

POLL_SECONDS = 0.02
"""How often the end of processes that are not our children is looked for."""


def processes_of_run(run_id: str, session: int = 0) -> set[int]:
    """Ids of the living processes of the run, this process never among them.

    `session` is the supervisor's process id, if known.
    """
    mark = f"{RUN_ID_VARIABLE}={run_id}".encode("utf-8", "surrogateescape")
    own = os.getpid()
    found = set()
    try:
        names = os.listdir("/proc")
    except OSError:
        return _process_group(session)
    for name in names:
        if not name.isdigit() or int(name) == own:
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            if fields[0] in (b"Z", b"X"):
                continue
            if session and int(fields[3]) == session:
                found.add(int(name))
                continue
            with open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    found.add(int(name))
        except (OSError, IndexError, ValueError):
            continue  # it ended meanwhile, or is somebody else's
    return found


def end_processes(find: Callable[[], set[int]], grace: float) -> bool:
    """Ask the processes that `find` names to end, and after `grace` seconds make them; True when force was needed.

    Returns only when `find` names none; a process that cannot be killed (in an uninterruptible wait) is waited for.
    """
    asked: set[int] = set()
    deadline = time.monotonic() + grace
    forced = False
    while left := find():
        if time.monotonic() < deadline:
            _signal(left - asked, signal.SIGTERM)
            asked |= left
        else:
            forced = True
            _signal(left, signal.SIGKILL)
        time.sleep(POLL_SECONDS)
    return forced


def reap() -> None:
    """Let go of supervising shells that have ended, so that a long-lived screen leaves no zombies behind."""
    for pid in list(_children):
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                _children.discard(pid)
        except ChildProcessError:
            _children.discard(pid)


def adopt(pid: int) -> None:
    """Note a child that nobody waits for; `reap` will."""
    reap()
    _children.add(pid)


def _signal(pids: set[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _process_group(group: int) -> set[int]:
    """The group as one negative id where there is no /proc.

    Signals reach all of it, and it is empty when none is left.
    """
    if not group:
        return set()
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return set()
    return {-group}
