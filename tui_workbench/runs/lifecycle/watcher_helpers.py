"""Record GPUs, read metrics and collect provenance for the runs of a watcher, in threads."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable

from tui_workbench.core import trace
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.runs.lifecycle.helpers import Helpers
from tui_workbench.runs.metrics.recording import MetricsRecorder
from tui_workbench.runs.snapshots.provenance import is_due, write_provenance
from tui_workbench.runs.store.rundir import RunDirectory

READING_SECONDS = 5.0  # maximum duration of a round of reading metrics


class WatcherHelpers:
    """The helpers of a watcher's runs. The methods are called in the main thread; `post` calls a function there."""

    def __init__(self, post: Callable[[Callable[[], object]], object]) -> None:
        self._post = post
        self._due_provenance: deque[RunDirectory] = deque()
        self._is_reading = False
        self.is_collecting = False  # True while the provenance of a run is collected

    def begin(self, directory: RunDirectory) -> Helpers:
        """Return helpers for a run whose script is running. Errors are ignored: the run may have been removed."""
        helpers = Helpers(directory)
        with contextlib.suppress(WorkbenchError), trace.for_run(directory.path):
            record = directory.own_record()
            with trace.for_agent(record.agent):
                helpers.record_gpus(record)
            helpers.watch_metrics()
            if is_due(directory, record):
                self._due_provenance.append(directory)
                self._start_collecting()
        return helpers

    def read_metrics(self, recorders: list[MetricsRecorder]) -> None:
        """Read the metrics of running scripts in a thread, so that little is left to read when they end."""

        def end() -> None:
            self._is_reading = False

        def read(recorders: list[MetricsRecorder]) -> None:
            begun = now = time.monotonic()
            while recorders and now < begun + READING_SECONDS:
                recorders = [recorder for recorder in recorders if recorder.read_piece()]
                time.sleep(time.monotonic() - now)  # use at most half of a core
                now = time.monotonic()
            self._post(end)

        if recorders and not self._is_reading:
            self._is_reading = True
            threading.Thread(target=read, args=(recorders,), daemon=True).start()

    def _start_collecting(self) -> None:
        """Collect the provenance of the next run in a thread, one run at a time. This can take minutes."""

        def end() -> None:
            self.is_collecting = False
            self._start_collecting()

        def collect(directory: RunDirectory) -> None:
            with contextlib.suppress(Exception), trace.for_run(directory.path):
                write_provenance(directory, directory.own_record())
            self._post(end)

        if self._due_provenance and not self.is_collecting:
            self.is_collecting = True
            threading.Thread(target=collect, args=(self._due_provenance.popleft(),), daemon=True).start()
