"""Functions that depend on the operating system: processes, the time since boot, shared blocks, unnamed files.

On Linux, the values come from /proc and from system calls of Linux. Elsewhere, psutil reads processes, and kqueue or
polling reports the end of a process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

_READ_SIZE = 1 << 16

_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD in the flags of /proc/PID/stat."""

_ENVIRONMENT_POLLS = 2000
_ENVIRONMENT_POLL_SECONDS = 0.0005
"""Number of polls, and seconds between them, for the environment of a process during `exec` or its exit.

On a busy machine, both can take a long time.
"""

_ENVIRONMENT_END = 48
"""The index of env_end (field 51 in proc(5)) among the fields after the program's name in /proc/PID/stat."""

_PR_SET_PDEATHSIG = 1
"""The option of prctl(2) for a signal at the end of the parent process."""

_FICLONE = 0x40049409
"""The request of ioctl(2) on Linux that makes a file share the blocks of another file."""

_MOST_DESCRIPTORS = 1024
"""Number of descriptors to examine if the system does not list the open descriptors."""

_PS_TIME = "%a %b %d %H:%M:%S %Y"
"""The format of `ps -o lstart=` with LC_ALL=C."""


class Process(NamedTuple):
    """A live process."""

    pid: int
    session: int  # process ID of the leader of its session; 0 if unknown
    start: int  # in ticks since boot on Linux, and otherwise in seconds since the epoch


def boot_id() -> str:
    """Return the boot ID of this machine, or `-` if the system has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "-"


def process_namespace() -> str:
    """Return the PID namespace of this process, such as `pid:[4026531836]`, or `-` if the system has none."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return "-"


def seconds_since_boot() -> float:
    """Return the seconds since boot, including time in suspension."""
    # Only Linux has CLOCK_BOOTTIME. CLOCK_MONOTONIC of macOS also counts in suspension.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def has_boot_times() -> bool:
    """Return True if the start times of processes are measured from boot, as in /proc."""
    return _has_proc()


def live_processes() -> Iterator[Process]:
    """Yield the processes of this machine, without zombies, kernel threads and this process."""
    own = os.getpid()
    if not _has_proc():
        yield from (process for process in _portable_processes() if process.pid != own)
        return
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == own:
            continue
        try:
            # Fields after the program's name, which may contain anything: state, parent, group, session, ...
            fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split(None, 20)
            if fields[0] not in (b"Z", b"X") and not int(fields[6]) & _KERNEL_THREAD:
                yield Process(int(name), int(fields[3]), int(fields[19]))
        except (OSError, IndexError, ValueError):
            continue  # it has ended


def environment_of(pid: int) -> bytes:
    """Return the initial environment of a process, with a NUL character after each variable.

    During `exec`, a process has no environment on Linux: wait until it is set. A process that is exiting has none
    either, but still has its files and GPUs open: wait until it has ended. Raises OSError if the process has ended or
    belongs to another user.
    """
    if not _has_proc():
        return _portable_environment(pid)
    is_final = False
    for _ in range(_ENVIRONMENT_POLLS):
        environment = b""
        with contextlib.suppress(ProcessLookupError):  # on newer versions of Linux, if the process is exiting
            environment = _read(f"/proc/{pid}/environ")
        if environment or is_final:
            return environment
        # Check this after reading, because the environment may have been set in between.
        is_final = _has_environment(pid)
        if not is_final:
            time.sleep(_ENVIRONMENT_POLL_SECONDS)
    return b""


def name_of_process(pid: int) -> str:
    """Return the name of a process; "" if it has ended."""
    if not _has_proc():
        return _portable_name(pid)
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def process_stat(pid: int) -> tuple[str, str]:
    """Return the state letter and the start time of a process, as in `Process`; "" for both if it has ended."""
    if not _has_proc():
        return _portable_stat(pid)
    try:
        text = _read(f"/proc/{pid}/stat").decode("ascii", "replace")
    except OSError:
        return "", ""
    return text.rpartition(")")[2].split()[0], start_time(text)


def start_time(text: str) -> str:
    """Return the start time in a line of /proc/PID/stat, or in the output of `ps -o lstart=`; `-` for other texts."""
    # The second field of a line of /proc, the command name in parentheses, may contain anything.
    fields = text.rpartition(")")[2].split()
    if len(fields) > 19:
        return fields[19]
    try:
        return str(int(time.mktime(time.strptime(" ".join(fields), _PS_TIME))))
    except (ValueError, OverflowError):
        return "-"


def is_same_start(start: str, other: str) -> bool:
    """Return True if two start times may belong to the same process."""
    if _has_proc() or "-" in (start, other):
        return start == other or "-" in (start, other)
    # `ps` and psutil may round the seconds differently.
    return start.isdigit() and other.isdigit() and abs(int(start) - int(other)) <= 1


def exit_descriptor(pid: int) -> int:
    """Return a descriptor that becomes readable when a process ends. The caller closes it.

    Raises OSError if the process has ended, or if the system does not support this, as Linux before 5.3.
    """
    if sys.platform == "linux":
        if not hasattr(os, "pidfd_open"):
            raise OSError("this build of Python has no pidfd_open")
        return os.pidfd_open(pid)
    queue = select.kqueue()
    try:
        flags = select.KQ_EV_ADD | select.KQ_EV_ENABLE
        queue.control([select.kevent(pid, select.KQ_FILTER_PROC, flags, select.KQ_NOTE_EXIT)], 0)
        # A kqueue closes its descriptor when it is deleted, so the caller gets a duplicate.
        return os.dup(queue.fileno())
    finally:
        queue.close()


def inheritable_descriptors() -> list[int]:
    """Return the inheritable descriptors of this process, except the standard streams."""
    try:
        numbers = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        numbers = list(range(_MOST_DESCRIPTORS))
    inheritable = []
    for number in numbers:
        with contextlib.suppress(OSError):  # it was closed, such as the descriptor of listdir
            if number > 2 and os.get_inheritable(number):
                inheritable.append(number)
    return inheritable


def bytes_written(pid: int) -> int:
    """Return the number of bytes that a process has written, or 0 if it is unknown."""
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("wchar")), 0)
    except (OSError, ValueError, IndexError):
        return 0


def had_variable_at_start(variable: str) -> bool:
    """Return True if this process was started with an environment variable, or if that is unknown."""
    try:
        return f"\0{variable}=".encode() in b"\0" + _read("/proc/self/environ")
    except OSError:
        return True


def end_with_parent() -> None:
    """Let Linux send SIGTERM to this process when its parent ends. On other systems, do nothing."""
    import ctypes

    with contextlib.suppress(AttributeError):  # only Linux has prctl
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def enlarge_pipe(descriptor: int, size: int) -> None:
    """Set the size of a pipe in bytes, if the system supports this and permits the size."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):  # the size may exceed the limit (pipe-user-pages-soft)
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, size)


def share_blocks(source: int, copy: int) -> None:
    """Make the empty file with the descriptor `copy` share all blocks of another file. Raises OSError."""
    fcntl.ioctl(copy, _FICLONE, source)


def extended_attributes(descriptor: int) -> dict[str, bytes]:
    """Return the extended attributes of an open file. The result is empty if the system or file system has none.

    Raises OSError if an attribute cannot be read.
    """
    if sys.platform != "linux":
        return {}
    names: list[str] = []
    with contextlib.suppress(OSError):  # not every file system has extended attributes
        names = os.listxattr(descriptor)
    return {name: os.getxattr(descriptor, name) for name in names}


def unnamed_file(folder: str) -> int:
    """Return a descriptor for writing a file without a name, on the file system of `folder`. Raises OSError."""
    if hasattr(os, "O_TMPFILE"):
        return os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    path = os.path.join(folder, f".{os.urandom(8).hex()}.tmp")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.unlink(path)
    return descriptor


@cache
def _has_proc() -> bool:
    return os.path.exists("/proc/self/stat")


def _has_environment(pid: int) -> bool:
    """Return False for a process during `exec`, where the kernel sets env_end last, and during its exit."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return fields[0] in (b"Z", b"X") or len(fields) <= _ENVIRONMENT_END or fields[_ENVIRONMENT_END] != b"0"


def _read(path: str) -> bytes:
    # `open` makes twice as many system calls, and a search reads files of every process on the machine.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = b""
        while more := os.read(descriptor, _READ_SIZE):
            data += more
        return data
    finally:
        os.close(descriptor)


def _portable_processes() -> Iterator[Process]:
    import psutil

    for process in psutil.process_iter():
        try:
            if process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                yield Process(process.pid, os.getsid(process.pid), int(process.create_time()))
        except (OSError, psutil.Error):
            continue  # it has ended, or belongs to another user


def _portable_environment(pid: int) -> bytes:
    import psutil

    try:
        variables = psutil.Process(pid).environ()
    except psutil.Error as error:
        raise ProcessLookupError(str(error)) from error
    return b"".join(os.fsencode(f"{name}={value}\0") for name, value in variables.items())


def _portable_name(pid: int) -> str:
    import psutil

    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return ""


def _portable_stat(pid: int) -> tuple[str, str]:
    import psutil

    try:
        process = psutil.Process(pid)
        is_dead = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        return "Z" if is_dead else "S", str(int(process.create_time()))
    except psutil.Error:
        return "", ""
