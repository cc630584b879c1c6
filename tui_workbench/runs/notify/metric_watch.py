"""Check the metrics of an active run for conditions that the user wants to be notified about."""

from __future__ import annotations

import contextlib

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.runs.metrics.run_metrics import RunMetrics
from tui_workbench.runs.notify.announcing import announce
from tui_workbench.runs.notify.channels import METRIC, load_channels, parse_condition
from tui_workbench.runs.store.rundir import RunDirectory


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
            if (found := summary.get(condition.metric)) and condition.is_met(found.minimum, found.maximum)
        }
        self.conditions -= met
        if met:
            announce(self._directory, METRIC)
        return bool(self.conditions)
