"""What happens before a run's first output, on stderr while it happens: images fetched and built, what is sent.

And, at any time, that the target is out of reach. stdout holds the run's own output and nothing else.
"""

from __future__ import annotations

import os
import sys
import time

from tui_workbench.cli.terminal import visible
from tui_workbench.model import RunState
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui_workbench.cli.progress_bar import ProgressBar
    from tui_workbench.cli.stream import OutputStream
    from tui_workbench.runs.rundir import RunDirectory

LOOK_SECONDS = 0.1
"""How often the files are looked at; the caller's loop turns faster than a person reads."""

SLOW_SECONDS = 0.5
"""A preparation that takes less is not worth a word."""


class PreparationNotes:
    """Tells on stderr what a run's preparation writes down."""

    def __init__(self, directory: RunDirectory) -> None:
        from tui_workbench.runs.progress import PREPARATION_LOG

        self._directory = directory
        self._path = directory.file(PREPARATION_LOG)
        self._offset = 0
        self._begun = time.monotonic()
        self._next = self._begun
        self._unknown = ""
        self._waits = ""
        self._bar: ProgressBar | None = None
        self._stream: OutputStream | None = None

    def tell(self) -> None:
        """Write what is new; to be called again and again."""
        moment = time.monotonic()
        if moment < self._next:
            return
        self._next = moment + LOOK_SECONDS
        status = self._directory.status()
        self._show_progress(status.state)
        is_slow = status.state == RunState.PREPARING and moment - self._begun > SLOW_SECONDS
        if is_slow or self._offset:
            self._tell_log()
        if status.state == RunState.QUEUED and status.reason != self._waits:
            self._waits = status.reason
            self._say(status.reason)
        unknown = status.reason if status.state == RunState.UNKNOWN and not status.end else ""
        if unknown != self._unknown:
            self._say(unknown or f"the run is {status.state} again")
            self._unknown = unknown

    def beside(self, stream: OutputStream) -> Callable[[], None]:
        """`tell`, without a bar in the way of what the stream writes to the same terminal."""
        self._stream = stream
        stream.before_output = self.clear
        return self.tell

    def clear(self) -> None:
        """Take the bar away, if there is one."""
        if self._bar is not None:
            self._bar.clear()

    def _show_progress(self, state: str) -> None:
        if self._stream is not None and not self._stream.is_at_line_start:
            return
        if self._bar is None and state in (RunState.PREPARING, RunState.FINALIZING):
            from tui_workbench.cli.progress_bar import shared

            self._bar = shared()
        if self._bar is not None:
            from tui_workbench.runs.progress import read_progress

            self._bar.show(read_progress(self._directory))

    def _tell_log(self) -> None:
        try:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return
        whole, newline, _ = data.rpartition(b"\n")
        if newline:
            self._offset += len(whole) + 1
            for line in whole.decode("utf-8", "replace").split("\n"):
                self._say(line)

    def _say(self, text: str) -> None:
        self.clear()
        sys.stdout.flush()
        sys.stderr.write(f"{visible(text)}{os.linesep}")
        sys.stderr.flush()
