"""The options of sbatch for a run. The values are those of `RunSpec.slurm`; sbatch(1) describes the options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

JOB_PREFIX = "wb-"
"""The prefix of the run ID in the name of a job. After a lost connection, the job is found by its name."""

WARNING_SECONDS = 120
"""Seconds between SIGTERM and the time limit, for scripts that save their state."""

LONGEST_WARNING = 65535
"""The largest number of seconds that sbatch accepts in `--signal`."""

SHORTEST_LIMIT = 5 * 60
"""Shortest time limit in seconds of a job that gets SIGTERM before its time limit.

Slurm can send the signal a minute early, which is too soon for a shorter job.
"""

VALUES = {
    "partition": "--partition",
    "account": "--account",
    "qos": "--qos",
    "time": "--time",
    "nodes": "--nodes",
    "gpus": "--gpus",
    "cpus": "--cpus-per-task",
    "mem": "--mem",
    "constraint": "--constraint",
}
"""The keys of `slurm` that have one value, and their options of sbatch."""


_ATTEMPT = re.compile(r"\.\d+$")  # no run ID ends like this


def job_name(run_id: str, attempt: int = 1) -> str:
    """Return the job name of a run. Each attempt that the workbench starts is a job with another name."""
    return f"{JOB_PREFIX}{run_id}{f'.{attempt}' if attempt > 1 else ''}"


def run_of(name: str) -> str:
    """Return the run ID in the name of a job; "" for any other job."""
    return _ATTEMPT.sub("", name.removeprefix(JOB_PREFIX)) if name.startswith(JOB_PREFIX) else ""


def resource_words(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the options that choose the resources of a job, and those of `extra`."""
    words = [f"{option}={values[key]}" for key, option in VALUES.items() if values.get(key)]
    # One task per node: its script uses all CPUs and GPUs of the node.
    words.append("--ntasks-per-node=1" if nodes_of(values) > 1 else "--ntasks=1")
    return (*words, *values.get("extra", ()))


def job_words(
    values: Mapping[str, Any], run_id: str, directory: str, *, minutes: int = 0, attempt: int = 1
) -> tuple[str, ...]:
    """Return all options of sbatch for an attempt of a run whose directory on the cluster is `directory`.

    `minutes` is `SignalBeforeEndMinutes`, or 0.
    """
    warning = warning_of(values, minutes)
    signal = (f"--signal=TERM@{warning}",) if warning else ()
    return (
        "--parsable",
        f"--job-name={job_name(run_id, attempt)}",
        "--requeue" if requeues(values) else "--no-requeue",
        "--open-mode=append",
        f"--output={log_of(directory)}",
        "--export=NONE",
        f"--chdir={directory}",
        *signal,
        *resource_words(values),
    )


def is_held(values: Mapping[str, Any]) -> bool:
    """Return True if the user's options hold the job."""
    return any(word in ("--hold", "-H") for word in values.get("extra", ()))


def log_of(directory: str) -> str:
    """Return the pattern that sbatch expands to the path of a run's slurm.log."""
    # `%` begins a replacement (sbatch(1), section "filename pattern"); `%%` stands for the character itself.
    return f"{directory.replace('%', '%%')}/slurm.log"


def requeues(values: Mapping[str, Any]) -> bool:
    """Return True if Slurm may start the job again."""
    return bool(values.get("requeue"))


def warning_of(values: Mapping[str, Any], minutes: int = 0) -> int:
    """Return the seconds between SIGTERM and the time limit; 0 if a script gets no SIGTERM.

    `minutes` is `SignalBeforeEndMinutes`, or 0. The script gets SIGTERM at the earliest in its second minute.
    """
    # An option in `extra` overrides the key `time`.
    extra = [word.removeprefix("--time=") for word in values.get("extra", ()) if word.startswith("--time=")]
    limit = seconds_of([str(values.get("time", "")), *extra][-1])
    if minutes:
        return min(60 * minutes, LONGEST_WARNING, max(0, limit - 60) if limit else LONGEST_WARNING)
    return WARNING_SECONDS if not limit or limit >= SHORTEST_LIMIT else 0


def nodes_of(values: Mapping[str, Any]) -> int:
    """Return the number of nodes that a job requests."""
    return int(values.get("nodes") or 1)


def seconds_of(text: str) -> int:
    """Return a Slurm time limit in seconds; 0 without a limit.

    The forms are `minutes`, `MM:SS`, `HH:MM:SS`, `D-HH`, `D-HH:MM` and `D-HH:MM:SS`.
    """
    days, dash, rest = text.rpartition("-")
    parts = [int(part) if part.isdecimal() else 0 for part in rest.split(":")]
    if dash:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, minutes, seconds = 0, *(*parts, 0)[:2]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
