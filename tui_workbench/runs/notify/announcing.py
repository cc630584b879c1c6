"""Announce events of runs from the processes that drive them. Detached processes send the notifications.

Loading Apprise takes longer than a short script, and a service may not answer, so the driving process never sends. Each
channel has its own folder of pending events, and its own process that sends them. A channel that does not work
therefore does not delay the other channels.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.processes import start_detached
from tui_workbench.runs.notify import pending
from tui_workbench.runs.notify.channels import METRIC, load_channels, parse_condition
from tui_workbench.runs.store.rundir import RunDirectory

if TYPE_CHECKING:
    # A submission loads this module, and only the processes that drive runs load the metrics.
    from tui_workbench.runs.metrics.run_metrics import RunMetrics

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


class MetricWatch:
    """The conditions of the user's channels that a run has not met yet."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        channels = []
        with contextlib.suppress(WorkbenchError):  # `notify list` reports an invalid file
            channels = load_channels()
        self.conditions = {parse_condition(text) for channel in channels for text in channel.metrics}

    def check(self, metrics: RunMetrics) -> bool:
        """Announce conditions that are met for the first time. Return False if no conditions are left."""
        summary = metrics.summary()
        met = {
            condition
            for condition in self.conditions
            if (metric := summary.get(condition.metric)) and condition.is_met(metric.minimum, metric.maximum)
        }
        self.conditions -= met
        if met:
            announce(self._directory, METRIC)
        return bool(self.conditions)
