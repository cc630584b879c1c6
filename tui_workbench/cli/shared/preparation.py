"""What happens before a run's first output, on stderr while it happens: images fetched and built, what is sent.

And, at any time, that the target is out of reach. stdout holds the run's own output and nothing else.
"""

from __future__ import annotations

import time

from tui_workbench.cli.shared.progress_bar import shared
from tui_workbench.cli.shared.stream import OutputStream
from tui_workbench.core.files import open_regular
from tui_workbench.core.model import RunState
from tui_workbench.runs.lifecycle.step_progress import PREPARATION_LOG, read_progress
from tui_workbench.runs.store.rundir import RunDirectory

LOOK_SECONDS = 0.1
"""How often the files are looked at; the caller's loop turns faster than a person reads."""

SLOW_SECONDS = 0.5
"""A preparation that takes less is not worth a word."""


class PreparationNotes:
    """Tells on stderr what a run's preparation writes down, with no bar in the way of what the stream writes."""

    def __init__(self, directory: RunDirectory, stream: OutputStream) -> None:
        self._directory = directory
        self._path = directory.file(PREPARATION_LOG)
        self._offset = 0
        self._begun = time.monotonic()
        self._next = self._begun
        self._unknown = ""
        self._waits = ""
        self._bar = shared()
        self._stream = stream
        stream.before_output = self._bar.clear

    def tell(self) -> None:
        """Write what is new; to be called again and again."""
        moment = time.monotonic()
        if moment < self._next:
            return
        self._next = moment + LOOK_SECONDS
        status = self._directory.status()
        if self._stream.is_at_line_start:
            self._bar.show(read_progress(self._directory))
        is_slow = status.state == RunState.PREPARING and moment - self._begun > SLOW_SECONDS
        if is_slow or self._offset:
            self._tell_log()
        if status.state == RunState.QUEUED and status.reason != self._waits:
            self._waits = status.reason
            self._bar.line(status.reason)
        unknown = status.reason if status.state == RunState.UNKNOWN and not status.end else ""
        if unknown != self._unknown:
            self._bar.line(unknown or f"the run is {status.state} again")
            self._unknown = unknown

    def _tell_log(self) -> None:
        try:
            with open_regular(self._path) as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return
        whole, newline, _ = data.rpartition(b"\n")
        if newline:
            self._offset += len(whole) + 1
            for line in whole.decode("utf-8", "replace").split("\n"):
                self._bar.line(line)
