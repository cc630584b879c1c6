"""The controller's part in metrics: it reads a long log while the run goes on, and stores all metrics at the end.

Metrics are derived from the files that the script wrote. An error here is noted and costs the run nothing: whoever
shows the run reads the files again.
"""

from __future__ import annotations

import struct
import threading
import time

from tui_workbench.runs.metrics.run_metrics import RunMetrics
from tui_workbench.runs.metrics.stored import write
from tui_workbench.runs.store.rundir import RunDirectory

INTERVAL = 1.0
"""Seconds between two looks at the sizes of the files."""

FAULTS = (
    OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError, MemoryError,
    struct.error,
)  # fmt: skip
"""What one of a million strange files may raise; the run has ended all the same."""

IDLE_SHARE = 1
"""Seconds of rest for each second of reading: a log that grows fast takes half of a core."""


class Keeper:
    """Keeps the metrics of one run. No error in here delays or changes the run's end."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._metrics: RunMetrics | None = None
        self._follower: threading.Thread | None = None
        self._stopping = threading.Event()
        self.caught_up = threading.Event()
        """Set once less than a piece of the output was left to read."""

    def follow(self) -> None:
        """Begin to read the run's output in a thread, so that little of it is left to read at the end."""
        if self._follower is None:
            self._follower = threading.Thread(target=self._follow, daemon=True)
            self._follower.start()

    def look(self) -> None:
        """Read all files now: links of the working copy, and the files behind them, go when it is cleared."""
        self.stop_following()
        try:
            if self._metrics is None or self._metrics.rules_changed:
                self._metrics = RunMetrics(self._directory.path, use_stored=False)
            self._metrics.refresh(ended=True)
        except FAULTS as error:
            self._complain(error)

    def keep(self) -> None:
        """Read the rest, and store everything."""
        if self._metrics is None:
            return
        try:
            self._metrics.refresh(ended=True)
            contents = self._metrics.contents()
            if contents.summary or contents.items or contents.notes:
                write(self._directory.path, contents)
        except FAULTS as error:
            self._complain(error)

    def _follow(self) -> None:
        try:
            metrics = RunMetrics(self._directory.path, use_stored=False)
            rest = INTERVAL
            while not self._stopping.wait(rest):
                begun = time.monotonic()
                has_read = metrics.follow()
                if not has_read:
                    self.caught_up.set()
                rest = IDLE_SHARE * (time.monotonic() - begun) if has_read else INTERVAL
        except FAULTS:
            return  # `look` reads everything itself then, and complains
        self._metrics = metrics

    def stop_following(self) -> None:
        """End the thread of `follow`, if there is one."""
        if self._follower is not None:
            self._stopping.set()
            self._follower.join()
            self._follower = None

    def _complain(self, error: Exception) -> None:
        self._metrics = None
        self._directory.append_event("step", step="metrics", reason=f"not kept: {type(error).__name__}: {error}")
