"""Announce events of runs from the processes that drive them. Detached processes send the notifications.

Loading Apprise takes longer than a short script, and a service may not answer, so the driving process never sends. Each
channel has its own folder of pending events, and its own process that sends them. A channel that does not work
therefore does not delay the other channels.
"""

from __future__ import annotations

import contextlib
import os
import sys

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.processes import start_detached
from tui_workbench.runs.notify import pending
from tui_workbench.runs.notify.channels import load_channels
from tui_workbench.runs.store.rundir import RunDirectory

SENDER = "tui_workbench.runs.notify.sender"


def announce(directory: RunDirectory, event: str) -> None:
    """Let the senders of the user's channels send the notifications about an event.

    Announce the end of a run before it is recorded: the sender waits for the record, so that a driving process that
    is killed in between loses no notification. An error does not affect the run.
    """
    with contextlib.suppress(WorkbenchError):  # `notify list` reports an invalid file
        for channel in load_channels():
            if channel.reports(event):
                with contextlib.suppress(OSError):
                    pending.add(channel.name, directory.path, event)
                    start_detached([sys.executable, "-P", "-m", SENDER, channel.name], os.environ)
