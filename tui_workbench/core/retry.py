"""`Retry` of a run configuration: after which ends a run is started again, in the same working copy."""

from __future__ import annotations

from typing import NamedTuple

from tui_workbench.core.model import RunConfiguration

SECTION = "Retry"

FAILED, OUT_OF_MEMORY, LOST, TIMEOUT, PREEMPTED = "failed", "oom", "lost", "timeout", "preempted"
CAUSES = (FAILED, OUT_OF_MEMORY, LOST, TIMEOUT, PREEMPTED)
"""Outcomes after which a run can be started again.

An exit code other than 0; killed because memory ran out; the machine was restarted, or the exit code is unknown; ended
by MaxDurationMinutes. PREEMPTED never occurs: only Slurm preempts runs, and it starts them again itself.
"""

DEFAULT_CAUSES = (FAILED, OUT_OF_MEMORY, LOST)
DEFAULT_TIMES, DEFAULT_DELAY = 1, 60


class Retry(NamedTuple):
    """When a run is started again. `times` is 0 for never, and `delay` is in seconds."""

    times: int = 0
    on: tuple[str, ...] = DEFAULT_CAUSES
    delay: int = DEFAULT_DELAY


def retry_of(configuration: RunConfiguration) -> Retry:
    """Return what the run configuration says about failed runs."""
    values = configuration.retry
    if not values:
        return Retry()
    # A record in run.json has lists.
    on = tuple(values.get("on", DEFAULT_CAUSES))
    return Retry(values.get("times", DEFAULT_TIMES), on, values.get("delay", DEFAULT_DELAY))
