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

from tui_workbench.core.waiting import Interrupted, wait_ready

RUN_ID_VARIABLE = "WORKBENCH_RUN_ID"
RUN_DIRECTORY_VARIABLE = "WORKBENCH_RUN_DIRECTORY"

POLL_SECONDS = 0.02
"""Seconds between two searches for processes that are being ended."""

SLOW_POLL_SECONDS = 0.05
"""Longest time in seconds between two searches if the kernel cannot report the end of a process."""

READ_SIZE = 1 << 16

KERNEL_THREAD = 0x00200000
"""PF_KTHREAD in the flags of /proc/PID/stat."""

EXEC_POLLS = 2000
EXEC_POLL_SECONDS = 0.0005
"""Number of polls, and seconds between them, for the environment of a process during `exec`.

On a busy machine, `exec` can take a long time.
"""

ENVIRONMENT_END = 48
"""The index of env_end (field 51 in proc(5)) among the fields after the program's name in /proc/PID/stat."""


def processes_of_run(run_id: str, session: int = 0, since: int = 0, directory: str = "") -> set[int]:
    """Return the IDs of the run's live processes, except for this process and the processes of other users.

    `session` is the process ID of the supervisor while it lives. `since` is its start time (clock ticks since boot):
    older processes do not belong to the run. `directory` is the run's directory. It distinguishes runs with the same
    ID, which two projects with the same name may start in the same millisecond.
    """
    mark = b"\0%s=%s\0" % (RUN_ID_VARIABLE.encode(), run_id.encode("utf-8", "surrogateescape"))
    own = os.getpid()
    found = set()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == own:
            continue
        try:
            # Fields after the program's name, which may contain anything: state, parent, group, session, ...
            fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split(None, 20)
            if int(fields[19]) < since or fields[0] in (b"Z", b"X") or int(fields[6]) & KERNEL_THREAD:
                continue
            in_session = session and int(fields[3]) == session and _is_signalable(int(name))
            if in_session or _has_mark(b"\0" + _environment(name), mark, directory):
                found.add(int(name))
        except (OSError, IndexError, ValueError):
            continue  # it has ended, or belongs to another user
    return found


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


def name_of_process(pid: int) -> str:
    """Return the name of a process; "" if it has ended."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def wait_for_any(pids: Iterable[int], seconds: float | None = None, interrupted: int = -1) -> None:
    """Wait until one of the processes has ended, or for `seconds`. May return early on kernels older than 5.3.

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


def _environment(name: str) -> bytes:
    """Return the initial environment of a process. Waits for a process during `exec`, whose environment is empty."""
    is_final = False
    for _ in range(EXEC_POLLS):
        environment = _read(f"/proc/{name}/environ")
        if environment or is_final:
            return environment
        # Check this after reading, because the environment may have been set in between.
        is_final = _has_environment(name)
        if not is_final:
            time.sleep(EXEC_POLL_SECONDS)
    return b""


def _has_environment(name: str) -> bool:
    """Return False for a process during `exec`: the kernel sets env_end last."""
    fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
    return fields[0] in (b"Z", b"X") or len(fields) <= ENVIRONMENT_END or fields[ENVIRONMENT_END] != b"0"


def _read(path: str) -> bytes:
    # `open` makes twice as many system calls, and a search reads files of every process on the machine.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = b""
        while more := os.read(descriptor, READ_SIZE):
            data += more
        return data
    finally:
        os.close(descriptor)


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
