"""Whose a process of this machine is, as /proc tells: user, program, run, container, session.

The run is what the process carries as WORKBENCH_RUN_ID, which only its own user may read; a container's id is in its
cgroup, which everybody may. An answer is kept as long as the process lives: ids are given anew, start times are not.
"""

from __future__ import annotations

import os
import re

from tui_workbench.records import NamedTuple
from tui_workbench.targets.processes import RUN_ID_VARIABLE

_FIRST_NAMESPACE = "pid:[4026531836]"
"""What the kernel calls the namespace that holds all processes (PROC_PID_INIT_INO)."""

_MARK = b"\0%s=" % RUN_ID_VARIABLE.encode()
_CONTAINER = re.compile(rb"([0-9a-f]{64})")
_MOST_KNOWN = 4096


class Owner(NamedTuple):
    """What is known of a process; empty where nothing is."""

    user: str = ""
    name: str = ""
    run: str = ""
    container: str = ""
    session: int = 0


NOBODY = Owner()


class Owners:
    """Asks /proc, and remembers."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bytes], Owner] = {}

    def of(self, pid: int) -> Owner:
        """The owner of a living process; NOBODY for one that has ended, or that cannot be seen from here."""
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        if len(fields) < 20:
            return NOBODY
        key = (pid, fields[19])
        owner = self._known.get(key)
        if owner is None:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            owner = self._known[key] = _look(pid, int(fields[3]))
        return owner


def hides_processes() -> bool:
    """True in a container: its process ids are not those that the driver gives."""
    try:
        return os.readlink("/proc/self/ns/pid") != _FIRST_NAMESPACE
    except OSError:
        return False


def _look(pid: int, session: int) -> Owner:
    environment = b"\0" + _read(f"/proc/{pid}/environ")
    run = environment.partition(_MARK)[2].partition(b"\0")[0].decode("utf-8", "surrogateescape")
    container = _CONTAINER.search(_read(f"/proc/{pid}/cgroup"))
    name = _read(f"/proc/{pid}/comm").strip().decode("utf-8", "replace")
    return Owner(_user_of(pid), name, run, container.group(1).decode() if container else "", session)


def _user_of(pid: int) -> str:
    try:
        number = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return ""
    try:
        import pwd

        return pwd.getpwuid(number).pw_name
    except (ImportError, KeyError):
        return str(number)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
