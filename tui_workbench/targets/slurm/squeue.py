"""Read the jobs of this user from squeue and sacct, and derive the facts that the screens show.

The text formats (`-h -o`) have the same fields in all versions of Slurm; the JSON output differs between versions.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from tui_workbench.core.model import ClusterJob
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.slurm.options import run_of, seconds_of
from tui_workbench.targets.slurm.states import WAITING, base_state

LIST_JOBS = shell_script("targets/slurm/scripts/list_jobs.sh")
"""A script that prints the time of the login node and a line for each job of this user."""

LIST_POSITIONS = shell_script("targets/slurm/scripts/list_positions.sh")
"""A script that prints `JOB POSITION` for each waiting job of this user and each of its partitions."""

LONGEST_FIELD = 200
"""Maximum number of characters that are kept of a field."""

LEAST_CHANGE = 60.0
"""Seconds by which a time must change to be reported. The backfill scheduler changes its estimates continually."""

_IN_ORDER = ("Priority", "Resources")
"""The reasons of jobs that start in the order of their priority. For other jobs, a position has no meaning."""

_TIME = "%Y-%m-%dT%H:%M:%S"


class Job(NamedTuple):
    """A job of this user."""

    job_id: str
    state: str
    reason: str = ""  # why it waits
    time_left: str = ""
    start: str = ""  # the start, or an estimate, by the cluster's clock
    nodes: str = ""
    name: str = ""
    end: str = ""  # the end, or an estimate, by the cluster's clock

    @property
    def run_id(self) -> str:
        """The run ID in the job's name; "" for any other job."""
        return run_of(self.name)


class Queue(NamedTuple):
    """The jobs of this user at a time `now` of the login node's clock."""

    now: str
    jobs: dict[str, Job]  # by ID
    positions: Mapping[str, int] = {}  # of waiting jobs, by ID


def parse(text: str) -> Queue:
    """Read the output of LIST_JOBS. Lines that are not jobs, such as the warnings of a wrapper script, are ignored."""
    now, _, rest = text.partition("\n")
    jobs = {}
    for line in rest.split("\n"):
        fields = line.split("|", 8)
        if len(fields) == 9 and fields[0].strip().isdecimal():
            job_id, state, reason, _, left, start, end, nodes, name = map(_safe, fields)
            jobs[job_id] = Job(job_id, base_state(state), reason, left, start, nodes, name, end)
    return Queue(now.strip(), jobs)


def parse_positions(text: str) -> dict[str, int]:
    """Read the output of LIST_POSITIONS: the best position of each job."""
    positions: dict[str, int] = {}
    for line in text.split("\n"):
        job_id, _, position = line.partition(" ")
        if job_id.isdecimal() and position.isdecimal() and len(position) < 10:
            positions[job_id] = min(int(position), positions.get(job_id, int(position)))
    return positions


def _safe(field: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in field.strip()[:LONGEST_FIELD])


class Account(NamedTuple):
    """The end of a job, as sacct reports it."""

    state: str = ""
    exit_code: int | None = None
    end: float = 0.0  # by the clock of this machine; 0.0 if unknown


def parse_accounting(text: str, now: str = "") -> Account:
    """Parse a line `STATE|CODE:SIGNAL|END` of sacct, at the time `now` of the cluster; empty for an unknown job.

    A requeued job has a line for each attempt; the last line counts. A job that a signal ended has no exit code.
    """
    for line in reversed(text.strip().split("\n")):
        state, bar, rest = line.partition("|")
        code, _, end = rest.partition("|")
        number, _, signal = code.partition(":")
        if bar and state.strip():
            is_whole = number.isdecimal() and signal.strip() in ("", "0")
            return Account(base_state(state), int(number) if is_whole else None, local_time(now, end))
    return Account()


def local_time(now: str, then: str) -> float:
    """Convert a past time of the cluster at its time `now` to the clock of this machine; 0.0 if it is not a time."""
    seconds = seconds_between(now, then.strip())
    return time.time() + seconds if seconds is not None and seconds <= 0 else 0.0


def facts_of(job: Job, queue: Queue, warning: int, now: float) -> ClusterJob:
    """Return the facts of a job at the local time `now`; the cluster's clock and time zone may differ.

    `warning` is the number of seconds between SIGTERM and the time limit; 0 without SIGTERM.
    """
    if job.state in WAITING:
        seconds = seconds_between(queue.now, job.start)
        return ClusterJob(
            job_id=job.job_id,
            position=queue.positions.get(job.job_id, 0) if job.reason in _IN_ORDER else 0,
            start=now + max(0.0, seconds) if seconds is not None else 0.0,
        )
    left = seconds_of(job.time_left)
    end = now + left if left else 0.0
    return ClusterJob(job.job_id, nodes=job.nodes, end=end, warning=end - warning if end and warning else 0.0)


def is_news(facts: ClusterJob, before: ClusterJob) -> bool:
    """Return True if facts differ from the reported facts `before`.

    A change of a time counts only if it is at least LEAST_CHANGE.
    """
    if facts[:2] != before[:2] or facts.nodes != before.nodes:
        return True
    times = ((facts.start, before.start), (facts.end, before.end), (facts.warning, before.warning))
    return any(bool(new) != bool(old) or abs(new - old) >= LEAST_CHANGE for new, old in times)


def seconds_between(now: str, then: str) -> float | None:
    """Return the seconds between two times in Slurm's format; None if one of them is not a time."""
    try:
        return (datetime.strptime(then, _TIME) - datetime.strptime(now, _TIME)).total_seconds()
    except ValueError:
        return None
