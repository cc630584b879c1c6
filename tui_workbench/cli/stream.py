"""A run's output on stdout: the bytes of output.log from an offset on, none lost and none twice."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from tui_workbench.cli.terminal import TerminalFilter
from tui_workbench.runs.rundir import OUTPUT

if TYPE_CHECKING:
    from tui_workbench.model import Run
    from tui_workbench.runs.rundir import RunDirectory

CHUNK = 1 << 20
FASTEST_POLL = 0.001
SLOWEST_POLL = 0.05
"""Seconds between looks at the file: short while something comes, longer the longer nothing does."""


class OutputStream:
    """Copies a run's output to stdout. To a terminal only what a terminal may see, otherwise every byte."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._path = directory.file(OUTPUT)
        self._offset = 0
        sys.stdout.flush()
        self._out = sys.stdout.fileno()
        self._filter = TerminalFilter() if os.isatty(self._out) else None

    def skip_to_last(self, lines: int) -> None:
        """Begin with the last `lines` lines instead of the first."""
        from tui_workbench.runs.logfile import tail_offset

        self._offset = tail_offset(self._path, lines)

    def copy_new(self) -> bool:
        """Write what has come since the last call; True when there was anything."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            begin = self._offset
            while data := os.pread(descriptor, CHUNK, self._offset):
                self._offset += len(data)
                self._write(data if self._filter is None else self._filter.feed(data))
            return self._offset > begin
        finally:
            os.close(descriptor)

    def follow(self) -> Run:
        """Write what comes until the run has ended, and return it as it ended."""
        pause = FASTEST_POLL
        while True:
            # The state is read before the last drain: what was written before the end is then sure to be there.
            ended = bool(self._directory.status().end)
            moved = self.copy_new()
            if ended:
                return self._directory.run()
            pause = FASTEST_POLL if moved else min(pause * 1.2, SLOWEST_POLL)
            time.sleep(pause)

    def close(self) -> None:
        """Write what the filter held back."""
        if self._filter is not None:
            self._write(self._filter.flush())

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._out, view) :]
