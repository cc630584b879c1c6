"""Whether a run can have told any metric at all, for next to nothing: lists of ten thousand runs ask it of each."""

from __future__ import annotations

import os

from tui_workbench.runs.metrics.output import PROGRESS
from tui_workbench.runs.regular import open_regular
from tui_workbench.runs.rundir import LIVE, METRICS, OUTPUT, OUTPUTS, WORKING_COPY

SMALL = 64 << 10
"""Bytes of a log that are read at a glance."""


def tells_nothing(directory: str) -> bool:
    """Whether the run at `directory` left nothing that could be a metric in its own folder; False when in doubt."""
    if _size(f"{directory}/{METRICS}") or any(_holds(f"{directory}/{name}") for name in (OUTPUTS, WORKING_COPY, LIVE)):
        return False
    size = _size(f"{directory}/{OUTPUT}")
    if size > SMALL:
        return False
    if not size:
        return True
    try:
        with open_regular(f"{directory}/{OUTPUT}") as file:
            return not PROGRESS.search(file.read(SMALL))
    except OSError:
        return True


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _holds(folder: str) -> bool:
    """Whether there is anything in a folder."""
    try:
        with os.scandir(folder) as entries:
            return any(True for _ in entries)
    except OSError:
        return False
