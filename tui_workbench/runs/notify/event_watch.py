"""Watch an active run for the events that are not its end: a stall, and metrics that meet a condition."""

from __future__ import annotations

import contextlib
import threading

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.runs.gpu.run_verdict import is_stalled
from tui_workbench.runs.metrics.recording import FAULTS
from tui_workbench.runs.metrics.run_metrics import RunMetrics
from tui_workbench.runs.notify.announcing import METRIC, STALLED, announce
from tui_workbench.runs.notify.channels import load_channels, parse_condition
from tui_workbench.runs.store.rundir import RunDirectory

INTERVAL = 10.0
"""Seconds between two checks."""


class EventWatch:
    """Announces the events of an active run from a thread, if a channel of the user reports such events."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._stopped = threading.Event()
        channels = []
        with contextlib.suppress(WorkbenchError):  # `notify list` reports an invalid file
            channels = load_channels()
        self._conditions = {parse_condition(text) for channel in channels for text in channel.metrics}
        self._awaits_stall = any(STALLED in channel.events for channel in channels)
        if self._conditions or self._awaits_stall:
            threading.Thread(target=self._run, daemon=True).start()

    def stop(self) -> None:
        """Stop watching. Conditions that are met after the last check are reported with the end of the run."""
        self._stopped.set()

    def _run(self) -> None:
        metrics = RunMetrics(self._directory.path, use_stored=False)
        while (self._conditions or self._awaits_stall) and not self._stopped.wait(INTERVAL):
            try:
                if self._conditions and metrics.refresh():
                    self._check(metrics)
                if self._awaits_stall and is_stalled(self._directory.path):
                    self._awaits_stall = False
                    announce(self._directory, STALLED)
            except (WorkbenchError, *FAULTS):
                continue  # the files of the script are malformed, or the run was removed

    def _check(self, metrics: RunMetrics) -> None:
        """Announce conditions that are met for the first time."""
        summary = metrics.summary()
        met = {
            condition
            for condition in self._conditions
            if (found := summary.get(condition.metric)) and condition.is_met(found.minimum, found.maximum)
        }
        self._conditions -= met
        if met:
            announce(self._directory, METRIC)
