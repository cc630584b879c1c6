"""A run's output on stdout: the bytes of output.log from an offset on, none lost and none twice."""

from __future__ import annotations

import os
import select
import sys
import time

from tui_workbench.cli.terminal import PlainFilter, TerminalFilter
from tui_workbench.errors import StorageError
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.rundir import EVENTS, OUTPUT, ControllerLock

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from tui_workbench.model import Run
    from tui_workbench.runs import Runs
    from tui_workbench.runs.rundir import RunDirectory

CHUNK = 1 << 20
FASTEST_POLL = 0.0005
SLOWEST_POLL = 0.05
SLOWING = 1.15
"""Seconds between looks at the file: short while something comes, longer the longer nothing does."""

LINE_SECONDS = 1.0
"""Between looks at the line that a run waits in."""

MOST_TAKEOVERS = 5
"""Of controllers that end without recording an end, how many are replaced before there is something to be told."""


def _nothing() -> None:
    """Nothing."""


class OutputStream:
    """Copies a run's output to stdout. To a terminal only what a terminal may see, otherwise every byte.

    With `plain` it is lines of text only, wherever they go. `path` is another file of the run than its output.log.

    As a context manager it leaves the terminal's colours as they were.
    """

    def __init__(self, runs: Runs, directory: RunDirectory, *, plain: bool = False, path: str = "") -> None:
        self._runs = runs
        self._directory = directory
        self._path = path or directory.file(OUTPUT)
        self._offset = 0
        self._takeovers = 0
        self._next_look = 0.0
        self.before_output: Callable[[], None] = _nothing
        """Called before anything is written: what stands in the last line has to go."""
        self.is_at_line_start = True
        sys.stdout.flush()
        self._out = sys.stdout.fileno()
        self._filter = PlainFilter() if plain else TerminalFilter() if os.isatty(self._out) else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Nobody is there any more to be written to.
        if self._filter is not None and kind is not BrokenPipeError:
            self._write(self._filter.flush())

    def skip_to_last(self, lines: int) -> None:
        """Begin with the last `lines` lines instead of the first."""
        from tui_workbench.runs.logfile import LogFile

        with LogFile(self._path) as log:
            self._offset = log.tail_offset(lines)

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

    def follow(self, tell: Callable[[], None] | None = None) -> Run:
        """Write what comes until the run has ended, and return it as it ended; `tell` is called again and again.

        Raises RunNotFound when its directory is removed meanwhile, and WorkbenchError when nobody can see it through to
        its end.
        """
        pause = FASTEST_POLL
        controller = self._watch_controller()
        try:
            while True:
                # The state is read before the last drain: what was written before the end is then sure to be there.
                ended = bool(self._directory.status().end)
                if tell is not None:
                    tell()
                moved = self.copy_new()
                if ended:
                    return self._directory.run()
                pause = FASTEST_POLL if moved else min(pause * SLOWING, SLOWEST_POLL)
                if controller < 0:
                    time.sleep(pause)
                    controller = self._watch_controller()
                elif select.select([controller], [], [], pause)[0]:
                    os.close(controller)
                    controller = -1
        finally:
            if controller >= 0:
                os.close(controller)

    def _watch_controller(self) -> int:
        """A descriptor that becomes readable when the run's controller ends.

        -1 when there is none or the system cannot tell.
        """
        holder = ControllerLock.holder(self._directory)
        if self._directory.is_waiting:
            self._see_to_the_line()
        elif holder == 0 and not self._directory.status().end:
            self._directory.read_record()
            self._takeovers += self._runs.take_over(self._directory.run_id)
            if self._takeovers > MOST_TAKEOVERS:
                raise StorageError(
                    "nobody can record how the run ends", remedy="Is the disk full?", file=self._directory.file(EVENTS)
                )
        try:
            return os.pidfd_open(holder) if holder > 0 else -1
        except (OSError, AttributeError):
            return -1

    def _see_to_the_line(self) -> None:
        """Now and then, as those who would let the run begin may have been killed."""
        if time.monotonic() >= self._next_look:
            self._runs.take_over(self._directory.run_id)
            self._next_look = time.monotonic() + LINE_SECONDS

    def _write(self, data: bytes) -> None:
        if data:
            self.before_output()
            self.is_at_line_start = data.endswith(b"\n")
        view = memoryview(data)
        while view:
            view = view[os.write(self._out, view) :]
