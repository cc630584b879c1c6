"""Wait for runs with a `RunGroup` in a thread, so that an unreachable target does not delay other steps."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable

from tui_workbench.core.model import RunSpec
from tui_workbench.core.waiting import waking_pipe
from tui_workbench.targets.base.group import RunGroup
from tui_workbench.targets.values import Outcome, Report

CLOSE_SECONDS = 5.0  # maximum time to wait for the end of the thread; a request to the target may be in progress


class GroupThread:
    """A thread that owns a group. It calls `on_ended` for each run that has ended, and `on_broken` with an error.

    After an error, the thread ends, and no run is followed.
    """

    def __init__(
        self,
        group: RunGroup,
        on_ended: Callable[[str, Outcome | None], object],
        on_broken: Callable[[Exception], object],
    ) -> None:
        self._group = group
        self._on_ended = on_ended
        self._on_broken = on_broken
        self._calls: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._reading, self._writing = waking_pipe()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="follow runs", daemon=True)
        self._thread.start()

    def add(self, spec: RunSpec, report: Report) -> None:
        self._call(lambda: self._group.add(spec, report))

    def remove(self, run_id: str, then: Callable[[], object]) -> None:
        """Stop following a run, and then call `then` in the thread."""

        def remove() -> None:
            self._group.remove(run_id)
            then()

        self._call(remove)

    def close(self) -> None:
        """End the thread, and wait at most CLOSE_SECONDS for it."""
        self._is_closing = True
        self._call(lambda: None)
        self._thread.join(CLOSE_SECONDS)

    def _call(self, call: Callable[[], object]) -> None:
        self._calls.put(call)
        with contextlib.suppress(OSError):  # the pipe is full, or the thread has ended
            os.write(self._writing, b"c")

    def _run(self) -> None:
        try:
            with contextlib.closing(self._group):
                while not self._is_closing:
                    self._wait()
        except Exception as error:  # the code of a target may raise any exception
            self._on_broken(error)
        finally:
            os.close(self._reading)

    def _wait(self) -> None:
        for run_id, outcome in self._group.wait(self._reading).items():
            self._on_ended(run_id, outcome)
        with contextlib.suppress(BlockingIOError):
            os.read(self._reading, 4096)
        with contextlib.suppress(queue.Empty):
            while True:
                self._calls.get_nowait()()
