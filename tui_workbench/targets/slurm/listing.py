"""Read the job, the exit code and the sizes of the files of each run from the run's folder on a cluster."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.hosts.run_times import difference, seconds_of
from tui_workbench.targets.hosts.supervisor import EXIT, OUTPUT, PID
from tui_workbench.targets.slurm.batch import ATTEMPTS, BEGIN, SLURM_LOG
from tui_workbench.targets.slurm.cluster import LoginHost
from tui_workbench.targets.values import Times

COPIED = (OUTPUT, SLURM_LOG)
"""The files whose new bytes are copied immediately."""

LOOK_SECONDS = 0.5
"""Seconds between two listings, so that the first line of output arrives within a second."""

MOST_LINE = 1 << 22
"""Maximum number of bytes in a line of the output. Longer lines are invalid."""

_ONCE = shell_script("targets/slurm/scripts/list_runs_once.sh")
_FOLLOW = shell_script("targets/slurm/scripts/follow_runs.sh")

_RUN = re.compile(r"= (\S+) (\S+) (\S+) (\S+)")
_ATTEMPT = re.compile(r"\+ (\d{1,6}) (\d{1,18}) ([\w.-]{1,255}) (\S+)")
_SIZE = re.compile(r" *(\d+) runs/([^/]+)/([^/]+)")
_TIMED = re.compile(rf"@ (\S+) runs/([^/]+)/(?:{ATTEMPTS}/(\d{{1,6}})/)?({PID}|{BEGIN}|{EXIT})")


class Attempt(NamedTuple):
    """One start of a job that Slurm may requeue."""

    start: int  # the size of output.log at its beginning
    node: str  # its first node
    exit_code: int | None = None
    times: Times = Times()


class Files(NamedTuple):
    """The files of a run on the cluster."""

    job_id: str = ""  # the job that executes it; "" before it has started
    exit_code: int | None = None
    has_exit: bool = False  # the file for the exit code exists
    sizes: Mapping[str, int] = {}  # of the files to copy, by name
    attempts: Mapping[int, Attempt] = {}  # by number, from 1 on
    attempt: int = 1  # the attempt that the workbench has started last
    started: Times = Times()  # of its job

    @property
    def times(self) -> Times:
        """When the last attempt began and ended."""
        return self.attempts[max(self.attempts)].times if self.attempts else self.started


class Listing:
    """A parser of the output of the command `follow_words`."""

    def __init__(self) -> None:
        self._rest = b""
        self._lines: list[str] = []
        self._ahead = math.inf  # the least known difference of the clocks; the output may have been delayed

    def feed(self, data: bytes) -> dict[str, Files] | None:
        """Parse more output. Return the newest listing that is now complete, by run ID; None without a new listing.

        Raises ValueError if a line is too long.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MOST_LINE:
            raise ValueError("a line is too long")
        listing = None
        for line in lines:
            if line == b".":
                listing, self._lines = self._parse(), []
            else:
                self._lines.append(line.decode("utf-8", "surrogateescape"))
        return listing

    def _parse(self) -> dict[str, Files]:
        if now := _time_in(self._lines):
            self._ahead = min(self._ahead, time.time() - now)
        return _parse(self._lines, self._ahead)


def follow_words(host: LoginHost) -> list[str]:
    """Return the command that prints the listing of all runs that have started, whenever it has changed."""
    return ["sh", "-c", _FOLLOW, "sh", host.home(), str(LOOK_SECONDS)]


def list_once(host: LoginHost, run_ids: Sequence[str]) -> dict[str, Files]:
    """Return the files of runs by run ID, including runs that have not started.

    Raises WorkbenchError if `runRoot` cannot be read.
    """
    before = time.time()
    done = host.ask(_ONCE, host.home(), *run_ids)
    after = time.time()
    if done.code != 0:
        # Without this error, the runs would seem to have no exit codes.
        raise WorkbenchError(
            f"cannot read runRoot {host.home()} on {host.label}: {done.complaint}",
            remedy="Check on that machine that the file system is mounted, and that you can read the folder.",
        )
    lines = done.text.split("\n")
    return _parse(lines, difference(_time_in(lines), before, after))


def _time_in(lines: Sequence[str]) -> float:
    """Return the time of the file system in a listing; 0.0 if it is missing."""
    return next((seconds_of(line[2:]) for line in reversed(lines) if line.startswith("# ")), 0.0)


def _parse(lines: Sequence[str], ahead: float) -> dict[str, Files]:
    """Return the files of the runs in a listing. `ahead` is the difference of the clocks; infinite if unknown."""
    runs: dict[str, Files] = {}
    sizes: dict[str, dict[str, int]] = {}
    attempts: dict[int, Attempt] = {}
    for line in lines:
        if run := _RUN.fullmatch(line):
            name, job, code, number = run.groups()
            sizes[name], attempts = {}, {}
            job = job if job.isdecimal() else ""
            runs[name] = Files(job, _exit_code(code), code != "none", sizes[name], attempts, _number(number))
        elif attempt := _ATTEMPT.fullmatch(line):
            number, start, node, code = attempt.groups()
            attempts[int(number)] = Attempt(int(start), node, _exit_code(code))
        elif (size := _SIZE.fullmatch(line)) and size[2] in runs and size[3] in COPIED:
            sizes[size[2]][size[3]] = int(size[1])
        elif (timed := _TIMED.fullmatch(line)) and timed[2] in runs and math.isfinite(ahead):
            runs[timed[2]] = _with_time(runs[timed[2]], timed[3], timed[4], seconds_of(timed[1]) + ahead)
    return runs


def _with_time(files: Files, number: str | None, name: str, moment: float) -> Files:
    """Return the files with the time of the last change of one of them, which is a start or an end."""
    if number is None:
        return files._replace(started=_changed(files.started, name, moment, files.exit_code))
    attempt = files.attempts.get(int(number))
    if attempt is None:
        return files
    changed = attempt._replace(times=_changed(attempt.times, name, moment, attempt.exit_code))
    return files._replace(attempts={**files.attempts, int(number): changed})


def _changed(times: Times, name: str, moment: float, exit_code: int | None) -> Times:
    if name != EXIT:
        return times._replace(start=moment)
    return times._replace(end=moment) if exit_code is not None else times


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) <= 6 else 1


def _exit_code(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= 3 else None
