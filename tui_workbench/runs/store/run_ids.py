"""The IDs and numbers of runs, from two counters in the state directory of the project."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator

from tui_workbench.core import locks
from tui_workbench.core.errors import UsageError, storage_errors
from tui_workbench.core.files import open_below
from tui_workbench.projects.project import Project
from tui_workbench.runs.store.rundir import RECORD, RunDirectory

RUN_NUMBER_FILE = "run_number"  # contains two counters of fixed length, so that updates need no disk space
COUNTERS_SIZE = 64
IDENTIFIER_LENGTH = 100  # maximum length of the project name in a run ID


def likely_run_id(project: Project) -> str:
    """Return the run ID that a run submitted now would get."""
    return _run_id(project, time.time_ns() // 1_000_000)


def reserve_run_id(project: Project) -> str:
    """Return a new run ID. Its time is later than the time in every other run ID, even if the clock was set back.

    Raises StorageError.
    """
    with _counters(project) as counters:
        counters.milliseconds = max(time.time_ns() // 1_000_000, counters.milliseconds + 1)
        return _run_id(project, counters.milliseconds)


def created_at(run_id: str) -> float:
    """Return the time in a run ID, in seconds since the epoch. Raises ValueError for an ID without a time."""
    return int(run_id.rpartition("_")[2]) / 1000


def next_run_number(project: Project) -> int:
    """Return the next run number of the project; numbers start at 1. Raises StorageError."""
    with _counters(project) as counters:
        counters.number += 1
        return counters.number


def identifier(name: str) -> str:
    """Convert a project name to text that is valid in folder names, git references and command lines."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in name)
    while ".." in plain:
        plain = plain.replace("..", ".")
    return plain.strip("-.")[:IDENTIFIER_LENGTH] or "project"


def _run_id(project: Project, milliseconds: int) -> str:
    return f"{identifier(project.name)}_{milliseconds}"


class _Counters:
    """The last run number, and the time in the last run ID in milliseconds since the epoch.

    This is not a dataclass, because the import of `dataclasses` takes 5 ms.
    """

    def __init__(self, number: int, milliseconds: int) -> None:
        self.number = number
        self.milliseconds = milliseconds


@contextlib.contextmanager
def _counters(project: Project) -> Iterator[_Counters]:
    """Lock and read the counters, and write them at the end of the context unless there was an error.

    Raises StorageError.
    """
    folder = project.state_directory
    with (
        storage_errors("write", os.path.join(folder, RUN_NUMBER_FILE)),
        locks.held(open_below(folder, RUN_NUMBER_FILE, os.O_RDWR | os.O_CREAT)) as descriptor,
    ):
        words = os.pread(descriptor, COUNTERS_SIZE, 0).split()
        is_whole = len(words) == 2 and all(word.isdigit() for word in words)
        counters = _Counters(*map(int, words)) if is_whole else _recovered_counters(project)
        yield counters
        line = b"%-15d %-15d\n" % (counters.number, counters.milliseconds)
        if os.pwrite(descriptor, line, 0) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _recovered_counters(project: Project) -> _Counters:
    number = milliseconds = 0
    for name in os.listdir(project.runs_directory):
        last = name.rpartition("_")[2]
        milliseconds = max(milliseconds, int(last) if last.isdecimal() else 0)
        if os.path.exists(os.path.join(project.runs_directory, name, RECORD)):
            try:
                record = RunDirectory(os.path.join(project.runs_directory, name)).read_record()
            except UsageError:
                continue
            number = max(number, record.run_number)
    return _Counters(number, milliseconds)
