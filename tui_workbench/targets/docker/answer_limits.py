"""Read answers of an engine with limits of size and time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

MOST_ANSWER = 64 << 20
"""Maximum size of an answer in bytes, and of a record of a container's log."""


def limit_answer(
    answer: Any, *, seconds: float, refuse: Callable[[str], Exception], stream: bool = False, **_: Any
) -> None:
    """Limit an answer that `requests` is about to read, unless it is streamed. This is a hook of `requests`.

    `refuse` returns the error for a reason.
    """
    if not stream:
        answer.raw = _LimitedBody(answer.raw, seconds, refuse)


class _LimitedBody:
    def __init__(self, raw: Any, seconds: float, refuse: Callable[[str], Exception]) -> None:
        self._raw = raw
        self._refuse = refuse
        self._left = MOST_ANSWER
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds

    def stream(self, size: int, **options: Any) -> Iterator[bytes]:
        for data in self._raw.stream(size, **options):
            self._left -= len(data)
            if self._left < 0:
                raise self._refuse(f"its answer is larger than {MOST_ANSWER >> 20} MiB")
            if time.monotonic() > self._deadline:
                raise self._refuse(f"its answer takes longer than {self._seconds:g} s")
            yield data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


def frames(answer: Any) -> Iterator[bytes]:
    """Yield the data of both streams. A frame is a header of eight bytes (stream, 0, 0, 0, length) and the data."""
    while len(header := answer.read(8)) == 8:
        size = int.from_bytes(header[4:8], "big")
        if size > MOST_ANSWER:
            raise ValueError("invalid frame")
        data = answer.read(size) if size else b""
        if len(data) < size:
            return  # the record is incomplete, and is read again
        yield data
