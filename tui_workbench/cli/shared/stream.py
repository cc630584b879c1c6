"""A run's output on stdout: the bytes of output.log from an offset on, none lost and none twice.

stdout holds nothing else. What happens before the first output (images are fetched and built, files are sent), and that
the target is out of reach, is told on stderr.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable
from typing import Self

from tui_workbench.cli.shared.progress_bar import shared
from tui_workbench.cli.shared.terminal import PlainFilter, TerminalFilter
from tui_workbench.core.errors import StorageError, UsageError, WorkbenchError
from tui_workbench.core.files import open_below, open_regular, write_all
from tui_workbench.core.model import Run, RunState
from tui_workbench.runs.lifecycle.step_progress import PREPARATION_LOG, read_progress
from tui_workbench.runs.store.rundir import EVENTS, OUTPUT, ControllerLock, RunDirectory

CHUNK = 1 << 20
FASTEST_POLL = 0.0005
SLOWEST_POLL = 0.05
SLOWING = 1.15
"""Seconds between looks at the file: short while something comes, longer the longer nothing does."""

LINE_SECONDS = 1.0
"""Between looks at the line that a run waits in."""

SHORT_LIFE = 5.0
"""Seconds: a controller that ends sooner, and leaves the run without an end, could not do its work."""

MOST_TAKEOVERS = 8
"""Of such controllers, how many in a row are replaced before there is something to be told."""

FIRST_WAIT, LONGEST_WAIT = 0.05, 5.0
"""Seconds before the next one is made, doubled each time: what keeps them from their work may be over by then."""

LOOK_SECONDS = 0.1
"""Between looks at the preparation: the loop that follows turns faster than a person reads."""

SLOW_SECONDS = 0.5
"""A preparation that takes less is not told."""


class OutputStream:
    """Copies a run's output to stdout. To a terminal only what a terminal may see, otherwise every byte.

    With `plain` it is lines of text only, wherever they go. `path` is another file of the run than its output.log.

    `offset` is that of the first byte to write. `take_over` gives the run a controller when it has none. As a context
    manager it leaves the colours of the terminal as they were.
    """

    def __init__(
        self,
        directory: RunDirectory,
        *,
        plain: bool = False,
        path: str = "",
        offset: int = 0,
        take_over: Callable[[RunDirectory], bool] | None = None,
    ) -> None:
        self._directory = directory
        self._give_controller = take_over or _give_controller
        self._path = path or directory.file(OUTPUT)
        self._offset = offset
        self._takeovers = 0
        self._next_takeover = 0.0
        self._next_look = 0.0
        self._is_at_line_start = True
        self.problem: StorageError | None = None
        """Why the log, or a part of it, could not be read."""
        sys.stdout.flush()
        self._out = sys.stdout.fileno()
        self._filter = PlainFilter() if plain else TerminalFilter() if os.isatty(self._out) else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Nobody is there any more to be written to.
        if self._filter is not None and kind is not BrokenPipeError:
            self._write(self._filter.flush())

    def copy_new(self) -> bool:
        """Write what has come since the last call; True when there was anything."""
        try:
            descriptor = open_below(self._directory.path, os.path.relpath(self._path, self._directory.path))
        except FileNotFoundError:
            return False
        except OSError as error:
            self.problem = StorageError(
                f"the log cannot be read: {error.strerror or error}", remedy="Is it a file?", file=self._path
            )
            return False
        try:
            if os.fstat(descriptor).st_size < self._offset:
                self._offset = 0  # it was cut short, and what is in it now is new
            begin = self._offset
            while data := os.pread(descriptor, CHUNK, self._offset):
                self._offset += len(data)
                self._write(data if self._filter is None else self._filter.feed(data))
            return self._offset > begin
        finally:
            os.close(descriptor)

    def follow(self, *, tells_preparation: bool = False) -> Run:
        """Write what comes until the run has ended, and return it as it ended.

        Raises RunNotFound when its directory is removed meanwhile, and WorkbenchError when nobody can see it through to
        its end. An imported run is not followed: what there is of its output is written.
        """
        run = self._directory.run()
        if run.imported:
            self.copy_new()
            return run
        notes = _PreparationNotes(self._directory) if tells_preparation else None
        pause = FASTEST_POLL
        controller = self._watch_controller()
        try:
            while True:
                # The state is read before the last drain: what was written before the end is then sure to be there.
                ended = bool(self._directory.status().end)
                if notes is not None:
                    notes.tell(at_line_start=self._is_at_line_start)
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
        elif holder == 0 and not self._directory.status().end and time.monotonic() >= self._next_takeover:
            self._take_over()
        try:
            return os.pidfd_open(holder) if holder > 0 else -1
        except (OSError, AttributeError):
            return -1

    def _take_over(self) -> None:
        """Give the run a controller, ever more slowly while none lives for long. Raises WorkbenchError."""
        self._directory.read_record()
        error: WorkbenchError | None = None
        try:
            if not self._give_controller(self._directory):
                return
        except UsageError:
            raise
        except WorkbenchError as raised:
            error = raised
        now = time.monotonic()
        is_in_a_row = now < self._next_takeover + SHORT_LIFE
        self._takeovers = self._takeovers + 1 if is_in_a_row else 1
        self._next_takeover = now + min(FIRST_WAIT * 2 ** (self._takeovers - 1), LONGEST_WAIT)
        if self._takeovers > MOST_TAKEOVERS:
            raise error or StorageError(
                "the end of the run cannot be recorded", remedy="Is the disk full?", file=self._directory.file(EVENTS)
            )

    def _see_to_the_line(self) -> None:
        """Now and then, as those who would let the run begin may have been killed."""
        if time.monotonic() >= self._next_look:
            self._give_controller(self._directory)
            self._next_look = time.monotonic() + LINE_SECONDS

    def _write(self, data: bytes) -> None:
        if data:
            shared().clear()
            self._is_at_line_start = data.endswith(b"\n")
            write_all(self._out, data)


class _PreparationNotes:
    """Tells on stderr what a run's preparation writes down."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._offset = 0
        self._begun = self._next = time.monotonic()
        self._unknown = self._waits = ""

    def tell(self, *, at_line_start: bool) -> None:
        """Write what is new; to be called again and again."""
        moment = time.monotonic()
        if moment < self._next:
            return
        self._next = moment + LOOK_SECONDS
        status = self._directory.status()
        if at_line_start:
            shared().show(read_progress(self._directory))
        is_slow = status.state == RunState.PREPARING and moment - self._begun > SLOW_SECONDS
        if is_slow or self._offset:
            self._tell_log()
        if status.state == RunState.QUEUED and status.reason != self._waits:
            self._waits = status.reason
            shared().line(status.reason)
        unknown = status.reason if status.state == RunState.UNKNOWN and not status.end else ""
        if unknown != self._unknown:
            shared().line(unknown or f"the run is {status.state} again")
            self._unknown = unknown

    def _tell_log(self) -> None:
        try:
            with open_regular(self._directory.file(PREPARATION_LOG)) as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return
        whole, newline, _ = data.rpartition(b"\n")
        if newline:
            self._offset += len(whole) + 1
            for line in whole.decode("utf-8", "replace").split("\n"):
                shared().line(line)


def _give_controller(directory: RunDirectory) -> bool:
    from tui_workbench.runs.lifecycle.queueing import give_controller

    return give_controller(directory)
