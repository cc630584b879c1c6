"""A connection to a Docker engine that reports the ends of containers as they happen."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable

from tui_workbench.core.waiting import waking_pipe
from tui_workbench.targets.docker.answer_limits import Stream
from tui_workbench.targets.docker.container import KIND_LABEL, RUN_KIND
from tui_workbench.targets.docker.engine import Engine, unreachable

RUNS = f"{KIND_LABEL}={RUN_KIND}"
"""The label of the containers of runs."""


class EngineEvents:
    """A thread that connects to an engine and receives events of the containers of runs until the connection is lost.

    The descriptor becomes readable when there is news for `take`. All methods are called in one other thread.
    """

    def __init__(self, connect: Callable[[], Engine]) -> None:
        """`connect` returns a new engine, and may raise a WorkbenchError."""
        self.engine: Engine | None = None
        """The engine, once it reports events."""

        self.descriptor, self._writing = waking_pipe()
        self._connect = connect
        self._names: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._error: Exception | None = None
        self._events: Stream | None = None
        self._is_closed = False
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="engine events", daemon=True).start()

    def take(self) -> list[str]:
        """Return the names of the containers that have ended or were removed since the last call.

        Raises an error if the connection was lost, usually TargetUnreachable.
        """
        is_over = False
        with contextlib.suppress(BlockingIOError):
            is_over = not os.read(self.descriptor, 4096)
        names = []
        with contextlib.suppress(queue.Empty):
            while True:
                names.append(self._names.get_nowait())
        if is_over and not names and self._error is not None:
            raise self._error
        return names

    def close(self) -> None:
        """Close the connection, now or once it is open."""
        with self._lock:
            self._is_closed = True
            self._end()
        os.close(self.descriptor)

    def _run(self) -> None:
        try:
            engine = self._connect()
            events = engine.ends(RUNS)
            with self._lock:
                self._events = events
                if self._is_closed:
                    self._end()
            self.engine = engine
            self._wake()
            with engine.translated("report events"), events:
                for event in events.messages():
                    self._names.put(str(event["Actor"]["Attributes"]["name"]))
                    self._wake()
            raise unreachable(engine.label)
        except Exception as error:  # raised by `take`
            self._error = error
        finally:
            os.close(self._writing)

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # the pipe is full or closed
            os.write(self._writing, b"c")

    def _end(self) -> None:
        if self._events is not None:
            with contextlib.suppress(OSError):  # the connection was lost
                self._events.stop()
