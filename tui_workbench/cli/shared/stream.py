"""Copy the output of a run to stdout: every byte of output.log from an offset, exactly once.

Nothing else is written to stdout. Preparation of the run and lost connections are reported on stderr, and so are large
holes of the file, which are not copied.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable
from typing import Self

from tui_workbench.cli.shared.progress_bar import shared
from tui_workbench.cli.shared.terminal import JsonFilter, PlainFilter, TerminalFilter
from tui_workbench.core import system
from tui_workbench.core.errors import StorageError, UsageError, WorkbenchError
from tui_workbench.core.files import open_below, open_regular, write_all
from tui_workbench.core.holes import end_of_hole
from tui_workbench.core.model import Run, RunState
from tui_workbench.runs.lifecycle.step_progress import PREPARATION_LOG, read_progress
from tui_workbench.runs.store.rundir import EVENTS, OUTPUT, ControllerLock, RunDirectory

CHUNK = 1 << 20
_PIECE = 1 << 16  # bytes of the preparation log that are read at once; a longer line is divided
FASTEST_POLL, SLOWEST_POLL = 0.002, 0.05
POLL_GROWTH = 1.3
"""Factor by which the poll interval grows while the log does not change. A wait also ends when the controller ends."""

QUEUE_SECONDS = 1.0
"""Seconds between checks of a queued run."""

SHORT_LIFE = 5.0
"""A controller that ends within this number of seconds, before the run has ended, counts as failed."""

MOST_TAKEOVERS = 8
"""Number of consecutive failed controllers that are replaced before an error is raised."""

FIRST_WAIT, LONGEST_WAIT = 0.05, 5.0
"""First and longest pause before a failed controller is replaced, in seconds. The cause may be temporary."""

PREPARATION_SECONDS = 0.1
"""Seconds between reads of the preparation log."""

SLOW_SECONDS = 0.5
"""Minimum duration of a preparation that is reported, in seconds."""


class OutputStream:
    """A copy of a run's output on stdout. A terminal gets only harmless text.

    With `plain`, only complete lines of plain text are written; with `as_json`, each line is written as a JSON object.
    `path` is the file to copy (default: output.log). `offset` is the position of the first byte to copy, and `end` the
    position after the last byte (default: no end). `take_over` gives a controller to a run that has none (default:
    `resuming.take_over`). The context manager resets the terminal's colors at the end.
    """

    def __init__(
        self,
        directory: RunDirectory,
        *,
        plain: bool = False,
        as_json: bool = False,
        path: str = "",
        offset: int = 0,
        end: int | None = None,
        take_over: Callable[[RunDirectory], bool] | None = None,
    ) -> None:
        self._directory = directory
        self._give_controller = take_over or _give_controller
        self._path = path or directory.file(OUTPUT)
        self._offset, self._end = offset, end
        self._takeovers = 0
        self._next_takeover = 0.0
        self._next_queue_check = 0.0
        self._is_at_line_start = True
        self.problem: StorageError | None = None
        """The error that occurred while reading the log, or None."""
        sys.stdout.flush()
        self._out = sys.stdout.fileno()
        self._filter = _filter_of(self._out, plain=plain, as_json=as_json)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After a broken pipe nothing can be written.
        if self._filter is not None and kind is not BrokenPipeError:
            self._write(self._filter.flush())

    def copy_new(self) -> bool:
        """Write the bytes that are new since the last call. Return True if there are any. Store errors in `problem`."""
        # The file is opened again each time: the script can replace it, also with a link or a pipe, which are refused.
        try:
            descriptor = open_below(self._directory.path, os.path.relpath(self._path, self._directory.path))
        except FileNotFoundError:
            return False
        except OSError as error:
            self.problem = StorageError(
                f"cannot read the log: {error.strerror or error}",
                remedy="Check that the log is a readable file.",
                file=self._path,
            )
            return False
        try:
            size = os.fstat(descriptor).st_size
            if size < self._offset:
                self._offset = 0  # the file was truncated, so all its content is new
            begin = self._offset
            while data := self._next(descriptor, size):
                self._offset += len(data)
                self._write(data if self._filter is None else self._filter.feed(data))
            return self._offset > begin
        finally:
            os.close(descriptor)

    def _next(self, descriptor: int, size: int) -> bytes:
        """Return the next bytes of the file, and skip large holes."""
        size = size if self._end is None else min(size, self._end)
        end = end_of_hole(descriptor, self._offset, size)
        if end > self._offset:
            shared().line(f"{end - self._offset:,} bytes of the log contain no data (a hole in the file); left out")
            self._offset = end
        return os.pread(descriptor, CHUNK if self._end is None else max(0, min(CHUNK, size - self._offset)), end)

    def follow(self, *, shows_preparation: bool = False, until: str = "") -> Run:
        """Write the output until the run has ended, and return the ended run.

        With `until`, return the run as soon as it has this state.

        An imported run is not followed: only its current output is written. Raises RunNotFound if the run directory is
        removed, and WorkbenchError if controllers of the run keep failing.
        """
        run = self._directory.run()
        if run.imported:
            self.copy_new()
            return run
        preparation = _PreparationReport(self._directory) if shows_preparation else None
        pause = FASTEST_POLL
        # The end of the controller ends a wait at once, so that the command returns without a pause.
        controller = self._watch_controller()
        try:
            while True:
                # The state is read before the last bytes, so that the end of the log cannot be lost.
                status = self._directory.status()
                ended = bool(status.end) or status.state == until
                if preparation is not None:
                    preparation.update(at_line_start=self._is_at_line_start)
                moved = self.copy_new()
                if ended:
                    return self._directory.run()
                pause = FASTEST_POLL if moved else min(pause * POLL_GROWTH, SLOWEST_POLL)
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
        """Start a missing controller. Return a descriptor that becomes readable at its end, or -1."""
        holder = ControllerLock.holder(self._directory)
        if self._directory.is_waiting:
            self._check_queue()
        elif holder == 0 and not self._directory.status().end and time.monotonic() >= self._next_takeover:
            self._take_over()
        try:
            return system.exit_descriptor(holder) if holder > 0 else -1
        except OSError:
            return -1

    def _take_over(self) -> None:
        """Give the run a controller. Each failure in a row delays the next attempt. Raises WorkbenchError."""
        self._directory.read_record()  # raises RunNotFound if the run directory was removed
        error: WorkbenchError | None = None
        try:
            if not self._give_controller(self._directory):
                return
        except UsageError:  # another attempt cannot help
            raise
        except WorkbenchError as raised:
            error = raised
        # The attempt counts even if it gave the run a controller: one that lives long enough resets the count.
        now = time.monotonic()
        is_in_a_row = now < self._next_takeover + SHORT_LIFE
        self._takeovers = self._takeovers + 1 if is_in_a_row else 1
        self._next_takeover = now + min(FIRST_WAIT * 2 ** (self._takeovers - 1), LONGEST_WAIT)
        if self._takeovers > MOST_TAKEOVERS:
            raise error or StorageError(
                "cannot record the end of the run",
                remedy="Check that the disk is not full, and that no program kills the controller of the run.",
                file=self._directory.file(EVENTS),
            )

    def _check_queue(self) -> None:
        """Start the queued run if it is next, because the process that would start it may have been killed."""
        if time.monotonic() >= self._next_queue_check:
            self._give_controller(self._directory)
            self._next_queue_check = time.monotonic() + QUEUE_SECONDS

    def _write(self, data: bytes) -> None:
        if data:
            shared().clear()
            self._is_at_line_start = data.endswith(b"\n")
            write_all(self._out, data)


def _filter_of(out: int, *, plain: bool, as_json: bool) -> PlainFilter | TerminalFilter | None:
    if as_json:
        return JsonFilter()
    return PlainFilter() if plain else TerminalFilter() if os.isatty(out) else None


class _PreparationReport:
    """A report on stderr about a run's preparation, its position in the queue and lost connections."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._offset = 0
        self._started = self._next_update = time.monotonic()
        self._unknown_reason = self._queue_reason = ""

    def update(self, *, at_line_start: bool) -> None:
        """Write new lines and the progress. Call this repeatedly."""
        now = time.monotonic()
        if now < self._next_update:
            return
        self._next_update = now + PREPARATION_SECONDS
        status = self._directory.status()
        # The bar is drawn from the first column, so it would overwrite an unfinished line of the script.
        if at_line_start:
            shared().show(read_progress(self._directory))
        is_slow = status.state == RunState.PREPARING and now - self._started > SLOW_SECONDS
        if is_slow or self._offset:
            self._write_new_lines()
        # A state that lasts is reported once, and again if its reason changes, such as the position in the queue.
        if status.state == RunState.QUEUED and status.reason != self._queue_reason:
            self._queue_reason = status.reason
            shared().line(status.reason)
        unknown = status.reason if status.state == RunState.UNKNOWN and not status.end else ""
        if unknown != self._unknown_reason:
            shared().line(unknown or f"the run is {status.state} again")
            self._unknown_reason = unknown

    def _write_new_lines(self) -> None:
        try:
            with open_regular(self._directory.file(PREPARATION_LOG)) as file:
                file.seek(self._offset)
                while data := file.read(_PIECE):
                    whole, newline, _ = data.rpartition(b"\n")
                    if not newline and len(data) < _PIECE:
                        break  # the last line is incomplete
                    piece = whole + newline or data
                    self._offset = file.seek(self._offset + len(piece))
                    for line in piece.decode("utf-8", "replace").removesuffix("\n").split("\n"):
                        shared().line(line)
        except OSError:
            return


def _give_controller(directory: RunDirectory) -> bool:
    from tui_workbench.runs.resuming import take_over

    return take_over(directory)
