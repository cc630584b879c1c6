"""The activity of a run beside its GPU samples: when its files last changed, and facts about its processes.

A *mark* is a text that changes when the size, the time of change or the name of one of the files changes. Marks are
only compared with each other, so wrong or changed clocks do not matter. The files are only listed, never read.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterable
from typing import Any

from tui_workbench.core.model import RunSpec
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.hosts.host_run import HostRun
from tui_workbench.targets.hosts.supervisor import METRICS, OUTPUT, RANKS, SPARK

LOOK_SECONDS = 30.0
"""Seconds without a change of the logs after which the other files are listed, and seconds between two listings."""

MOST_FILES = 5_000
"""Maximum number of files to list in each folder. Listing them takes about 0.1 s."""

LIST_SECONDS = 4
"""Time limit of a listing in seconds. A folder on a slow or missing file server can take minutes."""

_LOGS = (OUTPUT, METRICS, RANKS, SPARK)

_LIST_CHANGES = shell_script("targets/gpu/scripts/list_changes.sh")

CHANGES = f"list_changes={shlex.quote(_LIST_CHANGES)} most_files={MOST_FILES} list_seconds={LIST_SECONDS}\n"
"""The assignments that precede scripts which use changes.sh."""

_MARK_FILES = CHANGES + shell_script("targets/gpu/scripts/mark_files.sh")
_FACTS = shell_script("targets/gpu/scripts/facts_of_run.sh")


class Silence:
    """The time since the files of a run last changed, on a clock that the caller chooses."""

    def __init__(self) -> None:
        self._logs: str | None = None
        self._files: str | None = None  # None if the logs have changed since the last listing
        self._changed = 0.0

    @property
    def is_known(self) -> bool:
        """False before the first mark of the logs."""
        return self._logs is not None

    def see_logs(self, mark: str, now: float) -> None:
        if mark != self._logs:
            self._logs, self._files, self._changed = mark, None, now

    def see_files(self, mark: str, now: float) -> None:
        # The first mark after a change of the logs is only the base for the next one.
        if self._files is not None and mark != self._files:
            self._changed = now
        self._files = mark

    def seconds(self, now: float) -> float:
        return max(0.0, now - self._changed)


def log_mark(directory: str) -> str:
    """Return the names, sizes and modification times of the logs in a local run directory.

    The result is a string that changes when a log changes.
    """
    marks = []
    for log in _LOGS:
        try:
            status = os.lstat(f"{directory}/{log}")
            members = sorted(os.listdir(f"{directory}/{log}")) if stat.S_ISDIR(status.st_mode) else ()
            marks.append(f"{log} {status.st_size} {status.st_mtime_ns}")
            for member in members:
                status = os.lstat(f"{directory}/{log}/{member}")
                marks.append(f"{log}/{member} {status.st_size} {status.st_mtime_ns}")
        except OSError:
            continue  # it does not exist yet, or was removed
    return " ".join(marks)


def file_mark(host: Host, spec: RunSpec) -> str:
    """Return the mark of the run's files on its machine; "" if they cannot be listed.

    It covers the logs too, because their copies on this machine may be incomplete. Raises TargetUnreachable.
    """
    # An untracked run on this machine writes to the project itself, not to a copy in its directory.
    others = [spec.working_directory] if host.is_local and not spec.tracked else []
    argv = ["sh", "-c", _MARK_FILES, "sh", HostRun(host, spec).directory, *others]
    return host.run(argv, timeout=2 * LIST_SECONDS).text.strip()


def facts_of(host: Host, run_id: str) -> dict[str, Any]:
    """Inspect a run's processes and return facts about them; empty if none of them can be inspected.

    `cuda` is True if a process has loaded CUDA or HIP. `visible` is the value of one of the variables VISIBLE, if such
    a variable is set. `open` lists the numbers of the open NVIDIA devices, if any are open. Raises TargetUnreachable.
    """
    return facts_in(host.run(["sh", "-c", _FACTS, "sh", run_id]).text.split("\n"))


def facts_in(lines: Iterable[str]) -> dict[str, Any]:
    """Parse the lines that the shell function `facts` prints."""
    lines = tuple(lines)
    if "seen" not in lines:
        return {}
    facts: dict[str, Any] = {"cuda": "cuda" in lines}
    for line in lines:
        name, equals, value = line.partition("=")
        if name == "visible" and equals:
            facts["visible"] = value
        elif name == "device" and value.isdigit():
            facts.setdefault("open", []).append(int(value))
    return facts
