"""How far something long is: one model for everything that takes a while, wherever it is done and shown.

Who does the work makes a `meter` and tells it what is done; whoever called it, and wants to show that, has said so with
`listening`. Without a listener a meter costs next to nothing. The invariants: a rate is smoothed over seconds; the time
that is left is told only when it means something; texts of one thing keep their width, so that nothing flickers.
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
"""The unit of what is told in kB, MB, GB. Any other is a noun in the plural: `files`, `runs`."""

SMOOTHING_SECONDS = 3.0
"""A rate follows a change of speed in about this time."""

UPDATE_SECONDS = 0.1
"""Between two times that a listener is told, but for the last one."""

MEANINGFUL_SECONDS = 2.0
"""Before this much time nobody can know how much is left."""

LONGEST_LEFT = 99 * 3600.0
"""Seconds; more is no estimate."""

AMOUNT, RATE, LEFT = 18, 11, 11
"""Cells of each part of a line."""


class Progress(NamedTuple):
    """How far something is."""

    label: str  # in a word or two, as "sending"
    done: float
    total: float  # 0 when nobody knows
    unit: str  # BYTES or a noun in the plural
    started: float  # seconds since the epoch
    rate: float = 0.0  # a second, smoothed; 0 while it is not known
    seconds: float = 0.0  # since it was started

    @property
    def fraction(self) -> float | None:
        """Between 0 and 1; None when the total is not known."""
        return min(1.0, self.done / self.total) if self.total > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """Seconds that are left; None when that cannot be told."""
        if self.total <= 0 or self.rate <= 0 or self.seconds < MEANINGFUL_SECONDS:
            return None
        left = max(0.0, self.total - self.done) / self.rate
        return left if left < LONGEST_LEFT else None

    @property
    def percent(self) -> str:
        """`  7 %`; blanks when the total is not known."""
        return "     " if self.fraction is None else f"{int(100 * self.fraction):3} %"

    @property
    def amount(self) -> str:
        """`1.2 of 1.9 GB`, `12 of 340 files`, `1.2 GB`."""
        if self.unit == BYTES:
            size, unit = _scale(max(self.done, self.total))
            done = _digits(self.done / size)
            return f"{done} of {_digits(self.total / size)} {unit}" if self.total > 0 else f"{done} {unit}"
        done = f"{self.done:,.0f}"
        return f"{done} of {self.total:,.0f} {self.unit}" if self.total > 0 else f"{done} {self.unit}"

    @property
    def speed(self) -> str:
        """`45 MB/s`, `3.2/s`; empty while it is not known."""
        if self.rate <= 0 or self.seconds < 1:
            return ""
        if self.unit != BYTES:
            return f"{_digits(self.rate)}/s"
        size, unit = _scale(self.rate)
        return f"{_digits(self.rate / size)} {unit}/s"

    @property
    def time_left(self) -> str:
        """`40 s left`, `3 min left`; empty while that means nothing."""
        left = self.seconds_left
        if left is None:
            return ""
        if left < 60:
            # In steps, as a second more or less is noise.
            return f"{max(5 * math.ceil(left / 5), 5) if left > 10 else math.ceil(left)} s left"
        if left < 3600:
            return f"{left / 60:.0f} min left"
        return f"{left / 3600:.1f} h left"

    @property
    def summary(self) -> str:
        """All of it in words: `sending: 1.2 of 1.9 GB, 63 %, 45 MB/s, 20 s left`. As safe as `what` is."""
        parts = (self.amount, self.percent.strip(), self.speed, self.time_left)
        return f"{self.label}: {', '.join(part for part in parts if part)}"

    def columns(self) -> str:
        """Amount, speed and time left in columns that stay where they are."""
        return f"{self.amount:<{AMOUNT}} {self.speed:>{RATE}} {self.time_left:>{LEFT}}"


Listener = Callable[[Progress | None], object]
"""Is told of progress, and None at the end of each piece of work."""

_of_thread = threading.local()
_of_process: Listener | None = None


def bar(fraction: float | None, cells: int, *, full: str = "█", empty: str = "░", parts: str = "▏▎▍▌▋▊▉") -> str:
    """A bar of so many cells; all of it empty when the fraction is not known. `parts` are the cells in between."""
    if fraction is None:
        return empty * cells
    steps = len(parts) + 1
    filled = int(fraction * cells * steps)
    whole, part = divmod(filled, steps)
    text = full * whole + (parts[part - 1] if part else "")
    return text + empty * (cells - len(text))


class Meter:
    """What is told how much is done. As a context manager it ends with the context, however that ends."""

    def __init__(self, what: str, unit: str, total: float, listener: Listener | None) -> None:
        self._listener = listener
        self._started = time.monotonic() if listener is not None else 0.0
        self._progress = Progress(what, 0.0, total, unit, time.time() if listener is not None else 0.0)
        self._at, self._told = self._started, -math.inf

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._listener is not None:
            self._listener(None)

    def update(self, done: float, total: float | None = None) -> None:
        """So much is done by now, of so much if that is known only now."""
        if self._listener is None:
            return
        now = time.monotonic()
        before, passed = self._progress, now - self._at
        total = before.total if total is None else total
        is_last = 0 < total <= done
        if now - self._told < UPDATE_SECONDS and not is_last:
            return
        seconds = now - self._started
        rate = _smoothed(before.rate, done - before.done, passed, done, seconds)
        self._progress = before._replace(done=done, total=total, seconds=seconds, rate=rate)
        self._at = self._told = now
        self._listener(self._progress)


def _smoothed(rate: float, more: float, passed: float, done: float, seconds: float) -> float:
    """The rate with what came last counting by how long it took; at first it is the mean."""
    if seconds <= 0 or passed <= 0:
        return rate
    if seconds < SMOOTHING_SECONDS:
        return done / seconds
    weight = 1 - math.exp(-passed / SMOOTHING_SECONDS)
    return rate + weight * (more / passed - rate)


def meter(what: str, unit: str, total: float = 0) -> Meter:
    """A meter for whoever listens in this thread. It may be told from another one, one at a time."""
    return Meter(what, unit, total, getattr(_of_thread, "listener", None) or _of_process)


def metered(what: str, unit: str, items: Sequence[_Item]) -> Iterator[_Item]:
    """The items one by one, each told as done when the next one is asked for."""
    with meter(what, unit, len(items)) as telling:
        for number, item in enumerate(items, 1):
            yield item
            telling.update(number)


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell `listener` of what is done in this thread until the context ends."""
    before = getattr(_of_thread, "listener", None)
    _of_thread.listener = listener
    try:
        yield
    finally:
        _of_thread.listener = before


def listen(listener: Listener) -> None:
    """Tell `listener` of what is done in all threads that nobody else listens to."""
    global _of_process
    _of_process = listener


def size_text(size: float) -> str:
    """`120 MB`, `1.5 GB`, `12 B`."""
    limit, unit = _scale(size)
    return f"{size:.0f} B" if unit == "B" else f"{_digits(size / limit)} {unit}"


def _scale(size: float) -> tuple[float, str]:
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= limit:
            return limit, unit
    return 1.0, "B"


def _digits(number: float) -> str:
    """Three digits that matter."""
    return f"{number:.0f}" if number >= 100 else f"{number:.1f}" if number >= 1 else f"{number:.2f}"
