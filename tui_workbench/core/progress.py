"""Progress of long tasks.

The code that does the work updates a `meter`. A caller that shows the progress uses `listening`; without a listener, a
meter costs almost no time. To prevent flicker, rates are smoothed, columns keep their width, and the time left is shown
only if the estimate is meaningful.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

_Item = TypeVar("_Item")

BYTES = "B"
"""The unit of amounts that are shown in kB, MB and GB. Other units are plural nouns: `files`, `runs`."""

SMOOTHING_SECONDS = 3.0
"""Time constant in seconds for the smoothing of rates."""

UPDATE_SECONDS = 0.1
"""Minimum time in seconds between two updates of a listener."""

MEANINGFUL_SECONDS = 2.0
"""Minimum time in seconds that a task must have run before its time left is estimated."""

LONGEST_LEFT = 99 * 3600.0
"""Longest time left that is shown, in seconds."""

AMOUNT, RATE, LEFT = 18, 11, 11
"""Widths of the columns, in cells."""


class Progress(NamedTuple):
    """The progress of a task."""

    label: str  # one or two words: "sending"
    done: float
    total: float  # 0 if unknown
    unit: str  # BYTES or a plural noun
    started: float  # seconds since the epoch
    rate: float = 0.0  # per second, smoothed; 0 if unknown
    seconds: float = 0.0  # since the start

    @property
    def fraction(self) -> float | None:
        """The completed fraction, from 0 to 1; None if the total is unknown."""
        return min(1.0, self.done / self.total) if self.total > 0 else None

    @property
    def seconds_left(self) -> float | None:
        if self.total <= 0 or self.rate <= 0 or self.seconds < MEANINGFUL_SECONDS:
            return None
        left = max(0.0, self.total - self.done) / self.rate
        return left if left < LONGEST_LEFT else None

    @property
    def percent(self) -> str:
        """The completed percentage, as `  7 %`; spaces if the total is unknown."""
        return "     " if self.fraction is None else f"{int(100 * self.fraction):3} %"

    @property
    def amount(self) -> str:
        """The completed amount: `1.2 of 1.9 GB`, `12 of 340 files`, `1.2 GB`."""
        if self.unit == BYTES:
            size, unit = _scale(max(self.done, self.total))
            done = _digits(self.done / size)
            return f"{done} of {_digits(self.total / size)} {unit}" if self.total > 0 else f"{done} {unit}"
        done = f"{self.done:,.0f}"
        return f"{done} of {self.total:,.0f} {self.unit}" if self.total > 0 else f"{done} {self.unit}"

    @property
    def speed(self) -> str:
        """The rate: `45 MB/s`, `3.2/s`; empty in the first second, and if it is unknown or below 1 byte per second."""
        if self.rate <= 0 or self.seconds < 1 or (self.unit == BYTES and self.rate < 1):
            return ""
        if self.unit != BYTES:
            return f"{_digits(self.rate)}/s"
        size, unit = _scale(self.rate)
        return f"{_digits(self.rate / size)} {unit}/s"

    @property
    def time_left(self) -> str:
        """The estimated time left: `40 s left`, `3 min left`; empty if the time is unknown."""
        left = self.seconds_left
        if left is None:
            return ""
        if left < 60:
            # Round to 5 s, because the estimate is not more precise.
            return f"{max(5 * math.ceil(left / 5), 5) if left > 10 else math.ceil(left)} s left"
        if left < 3600:
            return f"{left / 60:.0f} min left"
        return f"{left / 3600:.1f} h left"

    @property
    def summary(self) -> str:
        """The progress in one line: `sending: 1.2 of 1.9 GB, 63 %, 45 MB/s, 20 s left`."""
        parts = (self.amount, self.percent.strip(), self.speed, self.time_left)
        return f"{self.label}: {', '.join(part for part in parts if part)}"

    def columns(self) -> str:
        """Return amount, speed and time left in columns of fixed width."""
        return f"{self.amount:<{AMOUNT}} {self.speed:>{RATE}} {self.time_left:>{LEFT}}"


Listener = Callable[[Progress | None], object]
"""Called with the progress of a task, and with None when the task ends."""

_of_thread = threading.local()
_of_process: Listener | None = None


def bar(fraction: float | None, cells: int, *, full: str = "█", empty: str = "░", parts: str = "▏▎▍▌▋▊▉") -> str:
    """Return a progress bar, which is empty if the fraction is None. `parts` are symbols for partly filled cells."""
    if fraction is None:
        return empty * cells
    steps = len(parts) + 1
    filled = int(fraction * cells * steps)
    whole, part = divmod(filled, steps)
    text = full * whole + (parts[part - 1] if part else "")
    return text + empty * (cells - len(text))


class Meter:
    """A meter that reports the progress of a task to a listener. The task ends when the context exits."""

    def __init__(self, label: str, unit: str, total: float, listener: Listener | None) -> None:
        self._listener = listener
        self._started = time.monotonic() if listener is not None else 0.0
        self._progress = Progress(label, 0.0, total, unit, time.time() if listener is not None else 0.0)
        self._updated = -math.inf
        self._measured = self._started

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._listener is not None:
            self._listener(None)

    def update(self, done: float, total: float | None = None) -> None:
        """Set the completed amount, and the total if it is given."""
        if self._listener is None:
            return
        now = time.monotonic()
        before, passed = self._progress, now - self._measured
        total = before.total if total is None else total
        is_last = 0 < total <= done
        if now - self._updated < UPDATE_SECONDS and not is_last:
            return
        seconds = now - self._started
        rate = _smoothed(before.rate, done - before.done, passed, done, seconds)
        self._progress = before._replace(done=done, total=total, seconds=seconds, rate=rate)
        self._measured = self._updated = now
        self._listener(self._progress)


def _smoothed(rate: float, more: float, passed: float, done: float, seconds: float) -> float:
    """Return the smoothed rate after `more` was done in `passed` seconds; for a new task, the mean rate."""
    if seconds <= 0 or passed <= 0:
        return rate
    if seconds < SMOOTHING_SECONDS:
        return done / seconds
    weight = 1 - math.exp(-passed / SMOOTHING_SECONDS)
    return rate + weight * (more / passed - rate)


def meter(label: str, unit: str, total: float = 0) -> Meter:
    """Return a meter for the listener of this thread. Other threads may update it, but only one at a time."""
    return Meter(label, unit, total, getattr(_of_thread, "listener", None) or _of_process)


def metered(label: str, unit: str, items: Sequence[_Item]) -> Iterator[_Item]:
    """Yield the items, and count each as done when the next item is requested."""
    with meter(label, unit, len(items)) as progress:
        for number, item in enumerate(items, 1):
            yield item
            progress.update(number)


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Report progress of this thread to `listener` until the context ends."""
    before = getattr(_of_thread, "listener", None)
    _of_thread.listener = listener
    try:
        yield
    finally:
        _of_thread.listener = before


def listen(listener: Listener) -> None:
    """Report the progress of all threads without a listener to `listener`."""
    global _of_process
    _of_process = listener


def size_text(size: float) -> str:
    """Format a size: `120 MB`, `1.5 GB`, `12 B`."""
    limit, unit = _scale(size)
    return f"{size:.0f} B" if unit == "B" else f"{_digits(size / limit)} {unit}"


def _scale(size: float) -> tuple[float, str]:
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= limit:
            return limit, unit
    return 1.0, "B"


def _digits(number: float) -> str:
    """Format a number without decimals from 100, with one decimal from 1, and otherwise with two."""
    return f"{number:.0f}" if number >= 100 else f"{number:.1f}" if number >= 1 else f"{number:.2f}"
