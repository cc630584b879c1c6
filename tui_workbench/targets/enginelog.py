"""The output of a container that could not write it itself, taken from the engine's own log, to the byte.

A record of that log is asked for by its time, and several records can have the same one: a line of more than 16 KiB
comes in pieces, all with one time. So a place in the log is a time and how many records of that time were taken. It is
kept beside the log, together with the log's size at that place: when the two disagree after a crash, the log is cut
back to the size and the rest is taken again.
"""

from __future__ import annotations

import os

from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.targets.mirror import take_turn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui_workbench.targets.engine import Engine

PLACE_FILE = "engine-log"
"""In the run directory: `SECONDS.NANOSECONDS COUNT SIZE`, rewritten in place in one write of fixed length."""

_LENGTH = 64


class Place(NamedTuple):
    """How far the log was taken."""

    since: str = ""  # seconds.nanoseconds of the last record taken; "" at the beginning
    taken: int = 0  # records taken of that time
    size: int = 0  # bytes of output.log that these and all earlier records made


class EngineLog:
    """Appends a container's log to `output` in the run directory `directory`, from where it was left."""

    def __init__(self, engine: Engine, container: str, directory: str, output: str) -> None:
        self._engine = engine
        self._container = container
        self._output = os.open(f"{directory}/{output}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._state = os.open(f"{directory}/{PLACE_FILE}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._is_ours = False
        self._place = Place()

    def __enter__(self) -> EngineLog:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._output)
        os.close(self._state)

    def take(self, *, follow: bool) -> None:
        """Take what is there, and with `follow` go on until the container has ended. Raises as Engine.records.

        When somebody else is taking it, to follow means nothing, and else the end of that is waited for.
        """
        if not self._is_ours and not self._begin(wait=not follow):
            return
        for since, text in self._new_records(follow):
            view = memoryview(text)
            while view:
                view = view[os.write(self._output, view) :]
            count = self._place.taken + 1 if since == self._place.since else 1
            self._place = Place(since, count, self._place.size + len(text))
            line = f"{since} {count} {self._place.size}".ljust(_LENGTH - 1) + "\n"
            os.pwrite(self._state, line.encode("ascii"), 0)

    def _begin(self, *, wait: bool) -> bool:
        """Go back to the last place that was noted; False when somebody else is taking the log."""
        self._is_ours = take_turn(self._state, wait=wait)
        if self._is_ours:
            self._place = _parse(os.pread(self._state, _LENGTH, 0))
            os.ftruncate(self._output, self._place.size)
            os.lseek(self._output, self._place.size, os.SEEK_SET)
        return self._is_ours

    def _new_records(self, follow: bool) -> Iterator[tuple[str, bytes]]:
        """Records behind the place: the engine gives those of its time again, which are counted off."""
        known = self._place
        skipped = 0
        for record in self._engine.records(self._container, since=known.since, follow=follow):
            stamp, _, text = record.partition(b" ")
            since = seconds_of(stamp.decode("ascii"))
            if since == known.since and skipped < known.taken:
                skipped += 1
                continue
            yield since, text


def seconds_of(stamp: str) -> str:
    """`2026-01-31T12:00:00.123456789Z` as `SECONDS.NANOSECONDS`, exactly, in the form that the engine takes back."""
    from datetime import UTC, datetime

    moment, _, fraction = stamp.removesuffix("Z").partition(".")
    whole = int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp())
    return f"{whole}.{fraction.ljust(9, '0')}"


def _parse(data: bytes) -> Place:
    words = data.decode("ascii", "replace").split()
    # A torn or missing line means the beginning: taking all again is right, only slower.
    if len(words) != 3 or not data.endswith(b"\n") or not (words[1] + words[2]).isdigit():
        return Place()
    return Place(words[0], int(words[1]), int(words[2]))
