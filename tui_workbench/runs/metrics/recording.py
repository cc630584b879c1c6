"""Record metrics in the controller: read a long log during the run, and store all metrics when the run ends.

Metrics are derived from the files of the script. An error here is recorded and does not affect the run, because the
screens can read the files again.
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
import time
from collections.abc import Callable

from tui_workbench.core.errors import StorageError, WorkbenchError
from tui_workbench.projects.project import state_of_run
from tui_workbench.runs.metrics.run_metrics import RunMetrics
from tui_workbench.runs.metrics.stored import write
from tui_workbench.runs.store.annotations import notify_index
from tui_workbench.runs.store.logged import compress
from tui_workbench.runs.store.rundir import METRICS, OUTPUT, RunDirectory

INTERVAL = 1.0  # seconds between two checks of the file sizes
CHECK_SECONDS = 10.0  # seconds between two calls of `on_metrics`

FAULTS = (
    OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError, MemoryError,
    struct.error,
)  # fmt: skip
"""Errors that malformed files may raise. They must not prevent the end of the run."""

LONG = 1 << 20  # minimum size of a long log in bytes; reading it takes 0.2 s

IDLE_SHARE = 1  # seconds of rest for each second of reading, so that a fast log uses half of a core


class MetricsRecorder:
    """Recorder of the metrics of a run. Errors never delay or change the end of the run.

    `on_metrics` is called with new metrics during the run, and returns False when it needs no more calls. Set it before
    the first piece is read.
    """

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self.on_metrics: Callable[[RunMetrics], bool] | None = None
        self._checked_at = time.monotonic()
        self._metrics: RunMetrics | None = None
        self._follower: threading.Thread | None = None
        self._stopping = threading.Event()
        self._is_late = False  # True if the metrics are stored after the end of the run is recorded
        self._reading = threading.Lock()  # held by the thread that reads a piece
        self.caught_up = threading.Event()  # set when less than a piece of the output is unread

    def follow(self) -> None:
        """Start reading the output in a thread, so that little is unread at the end of the run."""
        if self._follower is None:
            self._follower = threading.Thread(target=self._follow, daemon=True)
            self._follower.start()

    def read_piece(self) -> bool:
        """Read the next piece of a long output in this thread. Return False if little is unread or the run ends."""
        with self._reading:
            try:
                if self._stopping.is_set():
                    return False
                if self._metrics is None and self.on_metrics is None and not self._is_long():
                    return False
                self._metrics = self._metrics or self._new_reader()
                return self._follow_piece(self._metrics)
            except (WorkbenchError, *FAULTS):
                self._metrics = self.on_metrics = None  # `read` then reads all files and reports errors
                return False

    def _new_reader(self) -> RunMetrics:
        metrics = RunMetrics(self._directory.path, use_stored=False)
        metrics.restore_parts()
        return metrics

    def _follow_piece(self, metrics: RunMetrics) -> bool:
        """Read the next piece. If little is unread, read it too if `on_metrics` is due, and return False."""
        if metrics.follow():
            return True
        if self.on_metrics is not None and time.monotonic() >= self._checked_at + CHECK_SECONDS:
            self._checked_at = time.monotonic()
            if metrics.refresh() and not self.on_metrics(metrics):
                self.on_metrics = None
        return False

    def _is_long(self) -> bool:
        """Return True if reading the output at the end of the run would delay the end."""
        for name in (OUTPUT, METRICS):
            with contextlib.suppress(OSError):
                if os.stat(self._directory.file(name)).st_size >= LONG:
                    return True
        return False

    def read(self) -> None:
        """Read all files, except for a long rest of `metrics.jsonl`, which `store_late` reads.

        Call this before links and unchanged files are removed from the working copy.
        """
        self.stop_following()
        try:
            if self._metrics is None or self._metrics.rules_changed:
                self._metrics = self._new_reader()
            self._is_late = self._metrics.takes_long
            if self._is_late:
                self._metrics.refresh_files()
            else:
                self._metrics.refresh(ended=True)
        except FAULTS as error:
            self._report(error)

    def store(self) -> None:
        """Read the rest of the metrics and store all of them, unless this is left to `store_late`."""
        if not self._is_late:
            self._store()

    def store_late(self) -> None:
        """After the end of the run is recorded, store metrics that would have delayed it, and inform the index.

        Then compress many lines.
        """
        if self._is_late:
            self._is_late = False
            self._store()
            with contextlib.suppress(StorageError):
                notify_index(state_of_run(self._directory.path), self._directory.run_id)
        try:
            compress(self._directory)
        except OSError as error:
            self._report(error, "compressed")

    def _store(self) -> None:
        if self._metrics is None:
            return
        try:
            while self._metrics.follow_logged():
                pass  # the points of a long rest go to parts instead of memory
            self._metrics.refresh(ended=True)
            contents = self._metrics.contents()
            if contents.summary or contents.items or contents.notes:
                write(self._directory.path, contents)
        except FAULTS as error:
            self._report(error)

    def _follow(self) -> None:
        try:
            metrics = self._new_reader()
            rest = INTERVAL
            while not self._stopping.wait(rest):
                begun = time.monotonic()
                has_read = self._follow_piece(metrics)
                if not has_read:
                    self.caught_up.set()
                rest = IDLE_SHARE * (time.monotonic() - begun) if has_read else INTERVAL
        except (WorkbenchError, *FAULTS):
            return  # `read` then reads all files and reports errors
        self._metrics = metrics

    def stop_following(self) -> None:
        self._stopping.set()
        with self._reading:
            pass  # wait until the current piece is read
        if self._follower is not None:
            self._follower.join()
            self._follower = None

    def _report(self, error: Exception, failed: str = "stored") -> None:
        self._metrics = None
        with contextlib.suppress(StorageError):  # after its end, the run may have been removed
            reason = f"not {failed}: {type(error).__name__}: {error}"
            self._directory.append_event("step", step="metrics", reason=reason)
