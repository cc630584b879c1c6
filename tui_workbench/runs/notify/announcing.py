"""Announce events of runs from the processes that drive them. A detached process sends the notifications.

Loading Apprise takes longer than a short script, and a service may not answer, so the driving process never sends. Many
runs can end at the same time, so one process of the user sends all notifications. Each event is a file in a folder.
This process removes the files and sends the notifications.
"""

from __future__ import annotations

import contextlib
import os
import sys

from tui_workbench.core.directories import channels_path
from tui_workbench.core.processes import start_detached
from tui_workbench.runs.notify import pending
from tui_workbench.runs.store.rundir import RunDirectory

END, FAILED, STALLED = "end", "failed", "stalled"
EVENTS = (END, FAILED, STALLED)
"""The events that a channel can report: ends of all runs, only ends of failed and unknown runs, and stalls."""

METRIC = "metric"
"""The event of a metric that meets a condition of a channel."""

SENDER = "tui_workbench.runs.notify.sender"


def announce(directory: RunDirectory, event: str) -> None:
    """Let the sender send the notifications about an event, if the user has channels.

    Announce the end of a run before it is recorded: the sender waits for the record, so that a driving process that
    is killed in between loses no notification. An error does not affect the run.
    """
    if os.path.lexists(channels_path()):
        with contextlib.suppress(OSError):
            folder = pending.add(directory.path, event)
            start_detached([sys.executable, "-P", "-m", SENDER, folder], os.environ)
