"""Store the state of a run's job in the scheduler of a cluster, and format it as text.

Each change replaces the file, so that it stays small even if the position of a job changes for weeks. The file is for
information only: the state of the run does not depend on it.
"""

from __future__ import annotations

import json
import math
import time
from typing import Any

from tui_workbench.core.files import LARGEST, read_below, write_below
from tui_workbench.core.json_values import parse_json
from tui_workbench.core.model import ClusterJob, Run, RunState

JOB = "job.json"
LONGEST = 200
"""Maximum number of characters of a text from the cluster. Longer texts are cut."""

DAY = 86400


def write_job(directory: str, job: ClusterJob) -> None:
    """Store the state of a job. Raises OSError."""
    write_below(directory, JOB, json.dumps(job._asdict()).encode() + b"\n")


def read_job(directory: str) -> ClusterJob:
    """Return the stored state, or an empty state if it is missing or malformed. The file is not trusted."""
    try:
        stored = parse_json(read_below(directory, JOB, LARGEST))
    except (OSError, ValueError):
        return ClusterJob()
    if not isinstance(stored, dict):
        return ClusterJob()
    position = stored.get("position")
    return ClusterJob(
        job_id=_text(stored.get("job_id")),
        position=position if isinstance(position, int) and 0 < position < 1 << 31 else 0,
        start=_time(stored.get("start")),
        nodes=_text(stored.get("nodes")),
        end=_time(stored.get("end")),
        warning=_time(stored.get("warning")),
    )


def _text(value: Any) -> str:
    return "".join(char for char in value[:LONGEST] if char.isprintable()) if isinstance(value, str) else ""


def _time(value: Any) -> float:
    is_time = isinstance(value, int | float) and math.isfinite(value) and 0 < value < 1 << 40
    return float(value) if is_time else 0.0


def job_words(run: Run, now: float) -> str:
    """Return a text about the job of a run, or "" if nothing is known. The text is not trusted.

    Examples: `job 17, position 3, starts about 14:32` (waiting), `job 17 on node[1-2], 1 h 3 min left` (running).
    """
    words = [f"job {run.job.job_id}{f' on {run.job.nodes}' if run.job.nodes else ''}"] if run.job.job_id else []
    return ", ".join([*words, *filter(None, (queue_words(run, now), left_words(run, now)))])


def queue_words(run: Run, now: float) -> str:
    """Return a text such as `position 3, starts about 14:32` for a queued run, or ""."""
    job = run.job
    if run.state != RunState.QUEUED:
        return ""
    parts = [f"position {job.position}"] if job.position else []
    if job.start > now:
        parts.append(f"starts about {clock(job.start, now)}")
    elif job.start:
        parts.append("starts soon")
    return ", ".join(parts)


def left_words(run: Run, now: float) -> str:
    """Return the time until the time limit of a running job, such as `14 min left`, or "" without a limit."""
    if run.state != RunState.RUNNING or not run.job.end:
        return ""
    seconds = max(0, int(run.job.end - now))
    if seconds >= 2 * DAY:
        return f"{seconds // DAY} d {seconds % DAY // 3600} h left"
    if seconds >= 3600:
        return f"{seconds // 3600} h {seconds % 3600 // 60} min left"
    return f"{seconds // 60} min left" if seconds >= 300 else f"{seconds // 60}:{seconds % 60:02} left"


def warning_words(run: Run, now: float) -> str:
    """Return a warning if the cluster has sent SIGTERM to the job because of its time limit, or ""."""
    job = run.job
    if run.state != RunState.RUNNING or not job.warning or now < job.warning:
        return ""
    return f"the cluster has sent SIGTERM, because the job reaches its time limit at {clock(job.end, now)}"


def clock(moment: float, now: float) -> str:
    """Format a time of today as `14:32`, and a time of another day with its date, as `24 Nov 14:32`."""
    then, today = time.localtime(moment), time.localtime(now)
    text = time.strftime("%H:%M", then)
    return text if then[:3] == today[:3] else f"{then.tm_mday} {_MONTHS[then.tm_mon - 1]} {text}"


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
