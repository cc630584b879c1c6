"""Which processes of this machine belong to a run, and how to end them all.

A process belongs to a run when it carries the run's id in its environment (children inherit it, also those that start
a session of their own, as torchrun's workers do), or is in the session of the run's supervisor. A process that drops
the variable and leaves the session is on its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable

from tui_workbench.core.waiting import Interrupted, wait_ready

RUN_ID_VARIABLE = "WORKBENCH_RUN_ID"
RUN_DIRECTORY_VARIABLE = "WORKBENCH_RUN_DIRECTORY"

POLL_SECONDS = 0.02
"""How often the end of processes that are not our children is looked for while they are being ended."""

SLOW_POLL_SECONDS = 0.05
"""How often a process is looked at that cannot be waited for."""

KERNEL_THREAD = 0x00200000
"""The flag of a process that never runs a program."""

BECOMING_LOOKS = 2000
BECOMING_SECONDS = 0.0005
"""How often is looked, and after how long again, whether a process has become the program that it is to be.

It takes microseconds, but on a busy machine it may have to wait for its turn in the midst of it.
"""

ENVIRONMENT_END = 48
"""Which field behind the program's name in /proc/PID/stat is env_end (proc(5): field 51)."""


def processes_of_run(run_id: str, session: int = 0, since: int = 0, directory: str = "") -> set[int]:
    """Ids of the living processes of the run, this process never among them, nor those of other users.

    `session` is the process id of the supervisor while that one lives; later its number may be another's. `since` is
    the start time of the supervisor (clock ticks since boot), if known: nothing of the run is older. `directory` is the
    run's: two projects of one name may have begun a run in the same millisecond, which then have one id.
    """
    mark = b"\0%s=%s\0" % (RUN_ID_VARIABLE.encode(), run_id.encode("utf-8", "surrogateescape"))
    own = os.getpid()
    found = set()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == own:
            continue
        try:
            # Behind the name of the program, which may hold anything: state, parent, group, session, ..., flags, ...
            fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split(None, 20)
            if int(fields[19]) < since or fields[0] in (b"Z", b"X") or int(fields[6]) & KERNEL_THREAD:
                continue
            in_session = session and int(fields[3]) == session and _is_ours(int(name))
            if in_session or _carries(b"\0" + _environment(name), mark, directory):
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
            # One that was stopped could not hear it.
            _signal(left - asked, signal.SIGCONT)
            asked |= left
        else:
            forced = True
            _signal(left, signal.SIGKILL)
        wait_for_any(left, min(POLL_SECONDS, max(0.0, deadline - time.monotonic())) or POLL_SECONDS)
    return forced


def name_of_process(pid: int) -> str:
    """The name of a process, "" if it has ended."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def wait_for_any(pids: Iterable[int], seconds: float | None = None, interrupted: int = -1) -> None:
    """Return when one of the processes has ended, or after `seconds`; spuriously where the system cannot tell.

    Raises Interrupted as soon as the descriptor `interrupted` becomes readable.
    """
    with contextlib.ExitStack() as stack:
        watched = [interrupted] if interrupted >= 0 else []
        for pid in pids:
            try:
                watched.append(os.pidfd_open(pid))
            except OSError:  # it has ended, or the kernel is older than 5.3
                seconds = SLOW_POLL_SECONDS if seconds is None else min(seconds, SLOW_POLL_SECONDS)
            else:
                stack.callback(os.close, watched[-1])
        if interrupted in wait_ready(watched, timeout=seconds):
            raise Interrupted


def _carries(environment: bytes, mark: bytes, directory: str) -> bool:
    """Whether the process is the run's by what it began with."""
    if mark not in environment:
        return False
    _, named, rest = environment.partition(b"\0%s=" % RUN_DIRECTORY_VARIABLE.encode())
    try:
        # Not by its name: a project may be reached by several, and have another by now.
        return not (named and directory) or os.path.samefile(os.fsdecode(rest.partition(b"\0")[0]), directory)
    except OSError:
        return True


def _environment(name: str) -> bytes:
    """The environment that a process began with.

    One that is just becoming another program has none for a moment, and is waited for.
    """
    settled = False
    for _ in range(BECOMING_LOOKS):
        environment = _read(f"/proc/{name}/environ")
        if environment or settled:
            return environment
        # In this order: one that gets its environment in between is looked at again.
        settled = _has_its_environment(name)
        if not settled:
            time.sleep(BECOMING_SECONDS)
    return b""


def _has_its_environment(name: str) -> bool:
    """False for a process that runs no program yet: where its environment ends is what the kernel sets up last."""
    fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
    return fields[0] in (b"Z", b"X") or len(fields) <= ENVIRONMENT_END or fields[ENVIRONMENT_END] != b"0"


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _is_ours(pid: int) -> bool:
    """False for a process that may not be signalled; sudo and the like end it themselves."""
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
