"""Requests to a host in threads, so that a slow answer does not delay the caller's reaction to an interruption."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from tui_workbench.core.files import write_all
from tui_workbench.core.waiting import BackgroundCall, Backoff, Interrupted
from tui_workbench.targets.hosts.host import READ_SIZE, ConnectionLost, Host, HostProcess

_Result = TypeVar("_Result")

FINISH_SECONDS = 1.0
"""Time limit in seconds for a request to end after an interruption."""


class _Opening:
    """A background start of a program on a host; `descriptor` becomes readable when `process` does not block."""

    def __init__(self, start: Callable[[], HostProcess]) -> None:
        self._start = start
        self._process: HostProcess | None = None
        self._is_unwanted = False
        self._lock = threading.Lock()
        self._call = BackgroundCall(self._open)
        self.descriptor = self._call.descriptor

    def process(self) -> HostProcess:
        """Return the process after its start. Raises the errors of `start`."""
        with self._call:
            self._call.result()
        if self._process is None:
            raise ValueError("the process was given up")
        return self._process

    def give_up(self) -> None:
        """End the process, now or once it has started."""
        with self._call, self._lock:
            self._is_unwanted = True
            if self._process is not None:
                self._process.close()

    def _open(self) -> None:
        process = self._start()
        with self._lock:
            self._process = process
            # `give_up` was called while the program was being started.
            if self._is_unwanted:
                process.close()


class FollowingProgram:
    """A program on a host that reports on runs. It is started in the background, and again after an error.

    All methods are called in one thread. `descriptor` becomes readable when `read` does not block; it is -1 while the
    program is not started.
    """

    def __init__(self, host: Host, command: Callable[[], Sequence[str]]) -> None:
        """`command` returns the command of the program, and may contact the host."""
        self._host = host
        self._command = command
        self._opening: _Opening | None = None
        self._process: HostProcess | None = None
        self._start_at = 0.0  # earliest time (monotonic clock)
        self._pauses = Backoff()
        self.has_answered = False
        """True if the caller has accepted an answer since the last start."""

    @property
    def descriptor(self) -> int:
        if self._opening is not None:
            return self._opening.descriptor
        return self._process.stdout if self._process is not None else -1

    @property
    def is_started(self) -> bool:
        return self._process is not None

    @property
    def start_due(self) -> float:
        """The time of the next start (monotonic clock); infinity if the program is started or is being started."""
        return self._start_at if self.descriptor < 0 else math.inf

    def start(self) -> None:
        """Start the program in the background, if that is due."""
        if time.monotonic() >= self.start_due:
            self._opening = _Opening(lambda: self._host.open(self._command()))

    def read(self) -> bytes:
        """Return new output, or b"" once after each start. Raises the errors of the start, or ConnectionLost."""
        if self._opening is not None:
            opening, self._opening = self._opening, None
            self._process = opening.process()
            return b""
        data = os.read(self._process.stdout, READ_SIZE) if self._process is not None else b""
        if not data:
            raise self.lost("the connection was lost")
        return data

    def write(self, data: bytes) -> None:
        """Write to the input of the started program. Raises ConnectionLost."""
        try:
            if self._process is not None:
                # The program reads requests at once. If the connection is blocked, this waits until it is given up.
                write_all(self._process.stdin, data)
        except OSError as error:
            raise self.lost("the connection was lost") from error

    def accept_answer(self) -> None:
        """Note that an answer is valid, so that the pause after the next error is short."""
        self.has_answered, self._pauses = True, Backoff()

    def fail(self) -> None:
        """End the program after an error, so that it is started again after a pause."""
        self.close()
        self._start_at = time.monotonic() + self._pauses.next()

    def close(self) -> None:
        """End the program, now or once it has started. It can be started again."""
        if self._opening is not None:
            self._opening.give_up()
        if self._process is not None:
            self._process.close()
        self._opening = self._process = None
        self.has_answered = False

    def lost(self, reason: str) -> ConnectionLost:
        """Return the error for a lost connection or an invalid answer."""
        return ConnectionLost(
            f"{self._host.label}: {reason} while its runs were being followed",
            remedy="Wait: when the machine answers, the output resumes where it stopped.",
        )


def result_of(action: Callable[[], _Result], interrupted: int) -> _Result:
    """Return the result of a call that contacts a host. Raises its errors, and Interrupted."""
    results: list[_Result] = []
    with BackgroundCall(lambda: results.append(action())) as call:
        try:
            call.wait(interrupted)
        except Interrupted:
            # Each new run interrupts this call, but a request must complete even while many runs are submitted.
            if not call.wait(timeout=FINISH_SECONDS):
                raise
    return results[0]
