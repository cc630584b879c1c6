"""Wait for descriptors and for calls in threads, and pause between attempts.

The parameter `interrupted` is a descriptor. When it becomes readable, the wait ends; -1 means that no descriptor can
end the wait.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import math
import os
import select
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from tui_workbench.core.errors import TargetUnreachable, WorkbenchError

_Result = TypeVar("_Result")

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0
"""First and longest pause between two attempts to reach a target, in seconds."""


class Interrupted(Exception):
    """The wait was interrupted."""


def wait_ready(readers: Iterable[int], writers: Iterable[int] = (), timeout: float | None = None) -> set[int]:
    """Return the descriptors that are ready or have an error; an empty set after `timeout` seconds."""
    # select.select fails for descriptors above 1023, which a process with many open files can reach.
    poll = select.poll()
    for descriptor in readers:
        poll.register(descriptor, select.POLLIN)
    for descriptor in writers:
        poll.register(descriptor, select.POLLOUT)
    return {descriptor for descriptor, _ in poll.poll(None if timeout is None else math.ceil(timeout * 1000))}


def waking_pipe() -> tuple[int, int]:
    """Return a non-blocking pipe: a thread or signal handler writes to it to end a wait for its reading end."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    return reading, writing


def pause(seconds: float, interrupted: int = -1) -> None:
    """Sleep for `seconds`. Raises Interrupted if the descriptor `interrupted` becomes readable."""
    if wait_ready([interrupted] if interrupted >= 0 else [], timeout=seconds):
        raise Interrupted


class Backoff:
    """Exponential backoff: each pause is twice as long as the previous pause, up to `longest` seconds."""

    def __init__(self, first: float = FIRST_PAUSE, longest: float = LONGEST_PAUSE) -> None:
        self._next, self._longest = first, longest

    def next(self) -> float:
        """Return the seconds to wait before the next attempt."""
        seconds, self._next = self._next, min(2 * self._next, self._longest)
        return seconds

    def take(self, interrupted: int = -1) -> None:
        """Wait before the next attempt. Raises Interrupted."""
        pause(self.next(), interrupted)


class BackgroundCall:
    """A call in a thread that has the caller's context variables. `descriptor` becomes readable when the call ends."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._error: BaseException | None = None
        self.descriptor, self._writing = os.pipe()
        # A daemon thread, because a call that never returns must not keep the process alive.
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._run,), daemon=True)
        self._thread.start()

    def __enter__(self) -> BackgroundCall:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self.descriptor)

    def result(self) -> None:
        """Wait for the end of the call. If the call raised an exception, raise it again."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def wait(self, interrupted: int = -1, timeout: float | None = None) -> bool:
        """Wait for the end of the call. Return True at its end, or False after `timeout` seconds.

        Raises Interrupted, or the exception that the call raised.
        """
        watched = [self.descriptor] if interrupted < 0 else [self.descriptor, interrupted]
        ready = wait_ready(watched, timeout=timeout)
        if self.descriptor in ready:
            self.result()
            return True
        if ready:
            raise Interrupted
        return False

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:  # raised by `result`
            self._error = error
        finally:
            with contextlib.suppress(OSError):
                os.close(self._writing)


def at_once(calls: Mapping[str, Callable[[], _Result]]) -> dict[str, _Result]:
    """Call functions at the same time, and return their results when all have ended.

    Raises the error of one call. Raises TargetUnreachable only if no call raised another error.
    """
    results: dict[str, _Result] = {}

    def call(name: str) -> None:
        results[name] = calls[name]()

    errors: list[WorkbenchError | Interrupted] = []
    # The list starts all calls before the first result is awaited.
    for running in [BackgroundCall(functools.partial(call, name)) for name in calls]:
        with running:
            try:
                running.result()
            except (WorkbenchError, Interrupted) as error:
                errors.append(error)
    if errors:
        raise min(errors, key=lambda error: isinstance(error, TargetUnreachable))
    return {name: results[name] for name in calls}
