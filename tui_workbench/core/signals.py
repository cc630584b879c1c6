"""Delay the effect of signals."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

_DELAYED = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay the handlers of SIGINT, SIGHUP and SIGTERM, which may raise exceptions, until the end of this context.

    Has no effect on signals without a handler, and in threads other than the main thread, which executes all handlers.
    """
    arrived: list[signal.Signals] = []
    before = {number: handler for number in _DELAYED if callable(handler := signal.getsignal(number))}
    try:
        # A signal mask does not help, because it applies to one thread and another thread would get the signal.
        for number in before:
            signal.signal(number, lambda number, _: arrived.append(signal.Signals(number)))
    except ValueError:
        yield  # this is not the main thread
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in arrived[:1]:
            before[number](number, None)
