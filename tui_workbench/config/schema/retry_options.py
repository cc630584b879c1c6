"""Declare the options of `Retry` of a run configuration."""

from __future__ import annotations

from tui_workbench.config.schema import retry
from tui_workbench.config.schema.field_types import INTEGER, STRINGS, Field

RETRY_OPTIONS = (
    Field(
        f"{retry.SECTION}.times",
        "Number of times that a failed run is started again in the same working copy. The default is 1 if another key "
        "of `Retry` is set.",
        INTEGER,
        example="3",
        minimum=1,
        source="workbench",
    ),
    Field(
        f"{retry.SECTION}.on",
        "Outcomes after which the run is started again: `failed` (an exit code other than 0), `oom` (killed because "
        "memory ran out), `lost` (the machine was restarted or failed, or the exit code is unknown), `timeout` (ended "
        "by `MaxDurationMinutes`, or by the time limit of Slurm) and `preempted` (only on Slurm: another job took its "
        "nodes). The default is `failed`, `oom` and `lost`.",
        STRINGS,
        default=retry.DEFAULT_CAUSES,
        pattern="|".join(retry.CAUSES),
        form="failed, oom, lost, timeout or preempted",
        example="[oom, lost]",
        source="workbench",
    ),
    Field(
        f"{retry.SECTION}.delay",
        "Seconds to wait before the run is started again.",
        INTEGER,
        default=retry.DEFAULT_DELAY,
        minimum=0,
        source="workbench",
    ),
)
