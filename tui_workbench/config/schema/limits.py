"""Declare the time limits of a run configuration."""

from __future__ import annotations

from tui_workbench.config.schema.field_types import INTEGER, Field

STOP_IF_IDLE, STOP_IF_STALLED, MAX_DURATION = "StopIfIdleMinutes", "StopIfStalledMinutes", "MaxDurationMinutes"
"""Names of the limits. The reason of a run that a limit ended contains this name and a colon."""

LIMITS = (
    Field(
        STOP_IF_IDLE,
        "Ends a run after this number of minutes without GPU activity. By default, no run is ended.",
        INTEGER,
        example="30",
        minimum=1,
        source="workbench",
    ),
    Field(
        STOP_IF_STALLED,
        "Ends a run that has held GPU memory for this number of minutes without a step, log line or new file. "
        "By default, no run is ended.",
        INTEGER,
        example="60",
        minimum=1,
        source="workbench",
    ),
    Field(
        MAX_DURATION,
        "Ends a run after this number of minutes. By default, no run is ended. With `Retry`, the limit applies to "
        "each attempt.",
        INTEGER,
        example="720",
        minimum=1,
        source="workbench",
    ),
    Field(
        "SignalBeforeEndMinutes",
        "Number of minutes before `MaxDurationMinutes` at which the script gets SIGTERM, so that it can write a "
        "checkpoint. By default, it gets SIGTERM at the limit, and is killed 5 seconds later. On Slurm, the signal "
        "also comes before the time limit of the job, by default 2 minutes before it.",
        INTEGER,
        example="5",
        minimum=1,
        source="workbench",
    ),
)
