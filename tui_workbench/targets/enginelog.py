"""The output of a container that could not write it itself, taken from the engine's own log, to the byte.

The engine gives its records in the order of its file. Their times do not identify them: a line of more than 16 KiB
comes in pieces of one time, records of stdout and stderr may stand in another order than their times, and a clock may
be set back. So a place in the log is how many records were taken; of a large log, which nobody wants to read anew, how
many from a second on that lies a little before the last one. It is kept beside the log, together with the log's size at
that place: when the two disagree after a crash, the log is cut back to the size and the rest is taken again.
"""

from __future__ import annotations

import os

from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.targets.mirror import take_turn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui_workbench.targets.engine import Engine

PLACE_FILE = "engine-log"
"""In the run directory: the numbers of a Place, rewritten in place in one write of fixed length."""

LARGE = 16 << 20
"""Bytes of a log from which on not all of it is asked for again."""

MARGIN_SECONDS = 10
"""How far records of a large log may be out of order: what a busy machine may keep a thread waiting."""

_LENGTH = 64


class Place(NamedTuple):
    """How far the log was taken."""

    since: int = 0  # the second that the log is asked for from; 0 is its beginning
    taken: int = 0  # records of that answer that were taken
    total: int = 0  # all records that were taken
    size: int = 0  # bytes of output.log that they made


class EngineLog:
    """Appends a container's log to `output` in the run directory `directory`, from where it was left."""

    def __init__(self, engine: Engine, container: str, directory: str, output: str) -> None:
        self._engine = engine
        self._container = container
        self._output = os.open(f"{directory}/{output}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._state = os.open(f"{directory}/{PLACE_FILE}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._is_ours = False
        self._place = Place()
        self._counts: dict[int, int] = {}  # records taken of each second from the place's on
        self._is_counted = True  # whether that is so

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
        for second, text in self._new_records(follow):
            view = memoryview(text)
            while view:
                view = view[os.write(self._output, view) :]
            self._note(second, len(text))

    def _begin(self, *, wait: bool) -> bool:
        """Go back to the last place that was noted; False when somebody else is taking the log."""
        self._is_ours = take_turn(self._state, wait=wait)
        if self._is_ours:
            self._place = _parse(os.pread(self._state, _LENGTH, 0))
            os.ftruncate(self._output, self._place.size)
            os.lseek(self._output, self._place.size, os.SEEK_SET)
        return self._is_ours

    def _new_records(self, follow: bool) -> Iterator[tuple[int, bytes]]:
        """The second and the text of each record behind the place; those before it are counted off."""
        left = self._place.taken
        self._counts.clear()
        self._is_counted = True
        for record in self._engine.records(self._container, since=self._place.since, follow=follow):
            stamp, _, text = record.partition(b" ")
            second = second_of(stamp)
            if left:
                left -= 1
                self._counts[second] = self._counts.get(second, 0) + 1
                continue
            yield second, text

    def _note(self, second: int, length: int) -> None:
        """Note that one record more was taken."""
        since, taken, total, size = self._place
        if second < since:
            # The clock was set back: only counting from the beginning tells which records these are.
            since, taken, self._is_counted = 0, total, False
        taken, total, size = taken + 1, total + 1, size + length
        self._counts[second] = self._counts.get(second, 0) + 1
        if size > LARGE and second - MARGIN_SECONDS > since and self._is_counted:
            since = second - MARGIN_SECONDS
            self._counts = {each: count for each, count in self._counts.items() if each >= since}
            taken = sum(self._counts.values())
        self._place = Place(since, taken, total, size)
        line = " ".join(map(str, self._place)).ljust(_LENGTH - 1) + "\n"
        os.pwrite(self._state, line.encode("ascii"), 0)


def second_of(stamp: bytes) -> int:
    """`2026-01-31T12:00:00.123456789Z` as whole seconds since the epoch."""
    from datetime import UTC, datetime

    moment = stamp.decode("ascii").removesuffix("Z").partition(".")[0]
    return int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp())


def _parse(data: bytes) -> Place:
    words = data.decode("ascii", "replace").split()
    # A torn or missing line means the beginning: taking all again is right, only slower.
    if len(words) != 4 or not data.endswith(b"\n") or not "".join(words).isdecimal():
        return Place()
    return Place(*map(int, words))
