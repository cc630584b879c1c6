"""The fields of the user's own files for all projects: the settings, and the limits of coding agents."""

from __future__ import annotations

import os

from tui_workbench.config.schema.field_types import CHOICE, INTEGER, STRINGS, Field, FileKind
from tui_workbench.core.directories import agents_path, settings_path

_SETTINGS_FIELDS = (
    Field(
        "notifications",
        "Notifications about ended and stalled runs: `toast` shows them in the screens, and `terminal` also sends them "
        "to the terminal while it is not focused.",
        CHOICE,
        default="terminal",
        choices=("off", "toast", "terminal"),
    ),
    Field(
        "notification_sequence",
        "Escape sequence for notifications; `auto` chooses the sequence for the terminal.",
        CHOICE,
        default="auto",
        choices=("auto", "osc9", "osc777"),
    ),
    Field(
        "window_title",
        "Shows the project and the number of its active runs in the window title.",
        CHOICE,
        default="on",
        choices=("on", "off"),
    ),
)
SETTINGS = FileKind(
    "settings",
    "Settings",
    "~/.config/workbench-tui/settings.yaml",
    "Your settings for all projects.",
    tuple(field._replace(nullable=False, source="workbench") for field in _SETTINGS_FIELDS),
)

_AGENT_FIELDS = (
    Field(
        "targets",
        "Machines on which agents start runs without an approval: `local` for this machine, or the `address` of a "
        "target. All members of a group must be listed.",
        STRINGS,
        default=(),
        example="[local, gpu-box.example.org]",
    ),
    Field(
        "concurrent_runs",
        "Maximum number of active runs of agents, including queued runs.",
        INTEGER,
        default=1,
        minimum=0,
    ),
    Field(
        "minutes_per_run",
        "Maximum duration of a run in minutes, with all attempts of `Retry`. A run whose configuration sets no "
        "`MaxDurationMinutes` is ended after this time.",
        INTEGER,
        default=60,
        minimum=1,
    ),
    Field(
        "hours_per_day",
        "Maximum number of hours that the runs of agents take in 24 hours. An active run counts with its maximum "
        "duration.",
        INTEGER,
        default=4,
        minimum=0,
    ),
    Field(
        "gpu_hours_per_day",
        "Maximum number of GPU hours of the runs of agents in 24 hours. The GPU hours of a run are its duration times "
        "its number of GPUs.",
        INTEGER,
        default=4,
        minimum=0,
    ),
)
AGENTS = FileKind(
    "agents",
    "Limits of agents",
    "~/.config/workbench-tui/agents.yaml",
    "Your limits for runs that coding agents start with `workbench-tui mcp`, in all projects together. A run that "
    "exceeds them waits for your approval.",
    tuple(field._replace(nullable=False, source="workbench") for field in _AGENT_FIELDS),
)

USER_KINDS = (SETTINGS, AGENTS)


def kind_of_user_file(path: str) -> FileKind | None:
    """Return the kind of a file in the user's configuration folder; None for other files."""
    return {settings_path(): SETTINGS, agents_path(): AGENTS}.get(os.path.abspath(path))
