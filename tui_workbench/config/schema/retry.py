"""`Retry` of a run configuration: start an ended run again in the same working copy."""

from __future__ import annotations

from typing import NamedTuple

from tui_workbench.config.schema.field_types import INTEGER, STRINGS, Field
from tui_workbench.core.model import RunConfiguration

SECTION = "Retry"

FAILED, OUT_OF_MEMORY, LOST, TIMEOUT, PREEMPTED = "failed", "oom", "lost", "timeout", "preempted"
CAUSES = (FAILED, OUT_OF_MEMORY, LOST, TIMEOUT, PREEMPTED)
"""Outcomes after which a run can be started again.

FAILED is an exit code other than 0. OUT_OF_MEMORY means that the script was killed because memory ran out. LOST means
that the machine was restarted or failed, or that the exit code is unknown. TIMEOUT means that MaxDurationMinutes or the
time limit of Slurm ended the script. PREEMPTED occurs only on Slurm: a job with a higher priority took its nodes.
"""

DEFAULT_CAUSES = (FAILED, OUT_OF_MEMORY, LOST)
DEFAULT_TIMES, DEFAULT_DELAY = 1, 60

RETRY_OPTIONS = (
    Field(
        f"{SECTION}.times",
        "Number of times that a failed run is started again in the same working copy. The default is 1 if another key "
        "of `Retry` is set.",
        INTEGER,
        example="3",
        minimum=1,
        source="workbench",
    ),
    Field(
        f"{SECTION}.on",
        "Outcomes after which the run is started again: `failed` (an exit code other than 0), `oom` (killed because "
        "memory ran out), `lost` (the machine was restarted or failed, or the exit code is unknown), `timeout` (ended "
        "by `MaxDurationMinutes`, or by the time limit of Slurm) and `preempted` (only on Slurm: another job took its "
        "nodes). The default is `failed`, `oom` and `lost`.",
        STRINGS,
        default=DEFAULT_CAUSES,
        pattern="|".join(CAUSES),
        form="failed, oom, lost, timeout or preempted",
        example="[oom, lost]",
        source="workbench",
    ),
    Field(
        f"{SECTION}.delay",
        "Seconds to wait before the run is started again.",
        INTEGER,
        default=DEFAULT_DELAY,
        minimum=0,
        source="workbench",
    ),
)


class Retry(NamedTuple):
    """The rule for new attempts of a run: at most `times`, after the outcomes `on`, `delay` seconds later."""

    times: int = 0
    on: tuple[str, ...] = DEFAULT_CAUSES
    delay: int = DEFAULT_DELAY


def retry_of(configuration: RunConfiguration) -> Retry:
    """Return `Retry` of a run configuration, with defaults for missing keys. Without `Retry`, `times` is 0."""
    values = configuration.retry
    if not values:
        return Retry()
    # The tuple is a list in a record that was read from run.json.
    on = tuple(values.get("on", DEFAULT_CAUSES))
    return Retry(values.get("times", DEFAULT_TIMES), on, values.get("delay", DEFAULT_DELAY))
