"""Requests to a host in threads, so that a slow answer does not delay the caller's reaction to an interruption."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from tui_workbench.core.waiting import BackgroundCall, Interrupted
from tui_workbench.targets.hosts.host import HostProcess

_Result = TypeVar("_Result")

FINISH_SECONDS = 1.0
"""Time limit in seconds for a request to end after an interruption."""


class Opening:
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
            if self._is_unwanted:
                process.close()


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
