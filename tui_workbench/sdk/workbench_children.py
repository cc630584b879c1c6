"""The child processes of the launcher (see workbench_ranks.py), and the ranks that torchrun leaves running.

torchrun ends without its ranks if it is killed, or if it gets another signal while it ends them. The ranks are in their
own sessions. If init became their parent, neither the launcher nor a scheduler that follows parents would find them.

Only Linux has the functions for this, and they need `ctypes`. The file must run on Python 3.5 or newer with the
standard library only.
"""

import os
import signal
import sys

try:
    import ctypes
except ImportError:
    ctypes = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

_PR_SET_CHILD_SUBREAPER = 36


def wake_up_on_signals() -> "int":
    """Return a descriptor that becomes readable when a signal arrives, such as SIGCHLD."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    # Python writes to the descriptor only for signals with a handler, and SIGCHLD has none by default.
    signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    return reading


def adopt_orphans() -> "None":
    """Make this process the parent of each descendant whose parent ends."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None) if ctypes is not None else None
    if prctl is not None:
        # prctl reads its arguments as unsigned long, and ctypes would pass numbers as int.
        zero = ctypes.c_ulong(0)
        prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), zero, zero, zero)


def collect_ended(torchrun: "int") -> "None":
    """Let the system forget ended children, except the process `torchrun`, whose exit code is read elsewhere."""
    if sys.platform != "linux":
        return
    while True:
        try:
            # WNOWAIT only looks: the exit code of torchrun must stay for `Popen.poll`.
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid == torchrun:
            return
        os.waitpid(ended.si_pid, 0)


def children() -> "List[int]":
    """Return the IDs of the children of this process."""
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    return [pid for pid in pids if parent_of(pid) == os.getpid()]


def parent_of(pid: "int") -> "int":
    """Return the ID of the parent of a process, or 0 if the process has ended."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def send_signal(pid: "int", number: "int") -> "None":
    """Send a signal to a process, which may have ended meanwhile."""
    try:
        os.kill(pid, number)
    except OSError:
        pass
