"""A log is a file addressed by byte offset: read where it is asked for, indexed sparsely, never held.

Every call answers for the file as `poll` last saw it (`size` bytes of one `generation`), so several calls in a row
agree with each other while a run goes on writing. The index holds one number for each 64 KiB, so a gigabyte costs 128
KiB of memory; nothing but the bytes of the lines asked for is read, and opening a log of any size at its end costs the
same.

Not safe for use from several threads at once.
"""

from __future__ import annotations

import codecs
import contextlib
import os
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tui_workbench.core.errors import StorageError

BLOCK = 1 << 16
"""Bytes between two entries of the index. Finding one line then reads at most this much."""

LINE_CAP = 1 << 14
"""Bytes of one line that are read for showing it. The file keeps all of it."""

_READ = 1 << 14
"""Bytes of the first read for a page of lines; later reads of the same page double."""

_NEWLINE = b"\n"


class LogLine(NamedTuple):
    """One line, or as much of it as is shown."""

    start: int  # offset of its first byte
    stop: int  # offset of its newline; the end of the file for a last line without one
    end: int  # offset behind its newline: where the next line starts
    data: bytes  # without the newline; of a line longer than `LINE_CAP` the part that `cut` tells
    cut: int = 0  # bytes left out: positive when `data` is the line's start, negative when it is its end (of a bar)


class LogFile:
    """One log file: its bytes, its lines and how many there are.

    The file need not exist yet; it may grow, be truncated or be replaced (`generation` then rises and offsets of before
    mean nothing). What cannot be read is an empty file with a `problem`. Close it, or use it as a context manager.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = 0
        """Bytes, as `poll` last saw them."""
        self.generation = 0
        """How often what was known about the file had to be thrown away."""
        self.problem: StorageError | None = None
        """Why the file cannot be read; None while it can, and while it is only missing."""
        self._descriptor = -1
        self._identity: tuple[int, int] | None = None
        self._forget()

    def __enter__(self) -> LogFile:
        self.poll()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the file back. `poll` opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
        self._identity = None

    # What there is

    def poll(self) -> bool:
        """Looks at the file; True when it has grown, appeared, shrunk or become another.

        Two system calls when nothing happened.
        """
        before = (self.size, self.generation, self.problem is None)
        try:
            self._look()
        except FileNotFoundError:
            # Not there yet; and one that was deleted can still be read to its end.
            self.problem = None
        except OSError as error:
            self.close()
            self._start_over()
            self.problem = StorageError(
                f"the log cannot be read: {error.strerror or error}",
                file=self.path,
                remedy="Check the permissions of the run's directory.",
            )
        return (self.size, self.generation, self.problem is None) != before

    def _look(self) -> None:
        found = os.stat(self.path)
        if (found.st_dev, found.st_ino) != self._identity:
            self.close()
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            found = os.fstat(self._descriptor)
            os.pread(self._descriptor, 0, 0)  # a directory opens, and refuses only this
            self._identity = (found.st_dev, found.st_ino)
            self._start_over()
        elif found.st_size < self.size:
            self._start_over()
        self.problem = None
        self.size = found.st_size

    def _start_over(self) -> None:
        if self.size:
            self.generation += 1
        self.size = 0
        self._forget()

    def _forget(self) -> None:
        self._totals = array("Q")  # newlines up to the end of each whole block
        self._beyond = 0  # newlines behind the last whole block, up to `counted`
        self.counted = 0
        """Bytes whose newlines are counted, from the start of the file."""
        # A stretch that begins a line and holds no newline: what the last long search for one went over.
        self._bare = (0, 0)

    def read(self, offset: int, length: int) -> bytes:
        """The bytes from an offset, `length` at most; fewer at the end, or where the file was cut off meanwhile."""
        length = min(length, self.size - offset)
        if length <= 0 or self._descriptor < 0:
            return b""
        try:
            data = os.pread(self._descriptor, length, offset)
            while len(data) < length and (more := os.pread(self._descriptor, length - len(data), offset + len(data))):
                data += more
        except OSError:
            return b""  # a network file system went away: the next poll says so
        return data

    # Lines

    def lines_from(self, start: int, count: int) -> list[LogLine]:
        """Up to `count` lines, the first of which starts at `start` (which must be the start of a line)."""
        lines: list[LogLine] = []
        data, base, length = b"", start, _READ
        while len(lines) < count and start < self.size:
            newline = data.find(_NEWLINE, start - base)
            if newline >= 0:
                line = self._line(start, base + newline, data[start - base : newline])
            elif data and base + len(data) >= self.size:
                line = self._line(start, self.size, data[start - base :])
            elif len(data) - (start - base) > LINE_CAP:
                line = self._line(start, self._line_stop(start, base + len(data)), b"")
                data, base = b"", min(self.size, line.stop + 1)
            else:
                data, base = self.read(start, length), start
                if len(data) < min(length, self.size - start):
                    break  # cut off meanwhile: the next poll says so
                length *= 2
                continue
            lines.append(line)
            start = line.end
        return lines

    def lines_before(self, end: int, count: int) -> list[LogLine]:
        """Up to `count` lines, the last of which ends at `end` (the start of a line, or the end of the file)."""
        start = self.start_before(end, count)
        return [line for line in self.lines_from(start, count) if line.start < end]

    def start_before(self, end: int, count: int) -> int:
        """Where the last `count` lines before `end` begin; 0 when there are not so many.

        At the end of the file a last line without its newline counts as one.
        """
        if count <= 0:
            return end
        position = end - 1 if self._ends_with_newline(end) else end
        while position > 0:
            start = (position - 1) // BLOCK * BLOCK
            data = self.read(start, position - start)
            found = data.count(_NEWLINE)
            if found >= count:
                newline = len(data)
                for _ in range(count):
                    newline = data.rfind(_NEWLINE, 0, newline)
                return start + newline + 1
            count -= found
            position = start if found else self._find_newline_back(start) + 1
        return 0

    def line_start(self, offset: int) -> int:
        """Start of the line that the byte at the offset belongs to; its newline belongs to it."""
        return self._find_newline_back(min(max(0, offset), self.size)) + 1

    def line_end(self, start: int) -> int:
        """Where the line after the one that starts at `start` starts; the end of the file for the last one."""
        return min(self._line_stop(start, start) + 1, self.size)

    def _line(self, start: int, stop: int, data: bytes) -> LogLine:
        """The line from `start` to its newline, or to the end of the file, at `stop`; `data` where it is at hand."""
        end = min(stop + 1, self.size)
        length = stop - start
        if length <= LINE_CAP:
            return LogLine(start, stop, end, data or self.read(start, length))
        tail = self.read(stop - LINE_CAP, LINE_CAP)
        carriage_return = tail.find(b"\r", 0, -1)
        # A bar that redraws itself is one endless line, of which only the end was ever to be seen.
        if carriage_return >= 0:
            shown = tail[carriage_return + 1 :]
            return LogLine(start, stop, end, shown, len(shown) - length)
        shown = _clean_cut(self.read(start, LINE_CAP))
        return LogLine(start, stop, end, shown, length - len(shown))

    def _ends_with_newline(self, end: int) -> bool:
        return end > 0 and self.read(end - 1, 1) == _NEWLINE

    def _line_stop(self, start: int, offset: int) -> int:
        """Offset of the newline that ends the line at `start`, or the end of the file; none is before `offset`."""
        while offset < self.size:
            if self._bare[0] <= offset < self._bare[1]:
                offset = self._bare[1]
            data = self.read(offset, BLOCK)
            found = data.find(_NEWLINE)
            offset += found if found >= 0 else len(data)
            if found >= 0 or not data:
                break
        if offset - start > 4 * BLOCK:
            self._bare = (start, offset)
        return min(offset, self.size)

    def _find_newline_back(self, end: int) -> int:
        """Offset of the last newline before an offset; -1 when there is none."""
        last, step, found = end, _READ, -1
        while end > 0 and found < 0:
            if self._bare[0] < end <= self._bare[1]:
                found, end = self._bare[0] - 1, 0
                continue
            start = max((end - 1) // BLOCK * BLOCK, end - step)
            step = BLOCK  # most lines are short: only where one is not, whole blocks are read
            place = self.read(start, end - start).rfind(_NEWLINE)
            found, end = start + place if place >= 0 else -1, start
        if last - found > 4 * BLOCK:
            self._bare = (found + 1, last)
        return found

    # How many

    def index(self, budget: int = 1 << 20) -> bool:
        """Counts the newlines of up to `budget` more bytes. True when nothing is left to count."""
        end = min(self.size, self.counted + budget)
        while self.counted < end:
            limit = min(end, (len(self._totals) + 1) * BLOCK)
            data = self.read(self.counted, limit - self.counted)
            if not data:
                return True  # cut off meanwhile: the next poll says so
            self._beyond += data.count(_NEWLINE)
            self.counted += len(data)
            if self.counted == (len(self._totals) + 1) * BLOCK:
                self._totals.append((self._totals[-1] if self._totals else 0) + self._beyond)
                self._beyond = 0
        return self.counted >= self.size

    @property
    def newlines(self) -> int:
        """Newlines in the first `counted` bytes."""
        return (self._totals[-1] if self._totals else 0) + self._beyond

    @property
    def line_count(self) -> int | None:
        """Lines of the file, a last one without its newline included; None while they are not all counted."""
        if self.counted < self.size:
            return None
        return self.newlines + bool(self.size and not self._ends_with_newline(self.size))

    def line_number(self, offset: int) -> int | None:
        """How many lines end before the one that holds the offset, so 0 for the first; None where not yet counted."""
        if offset > self.counted:
            return None
        block = min(offset // BLOCK, len(self._totals))
        before = self._totals[block - 1] if block else 0
        return before + self.read(block * BLOCK, offset - block * BLOCK).count(_NEWLINE)

    def line_offset(self, number: int) -> int | None:
        """Where the line of this number (from 0) starts; None when it is not counted, or there is none."""
        if number <= 0:
            return 0
        if number > self.newlines:
            return None
        block = bisect_left(self._totals, number)
        left = number - (self._totals[block - 1] if block else 0)
        data = self.read(block * BLOCK, BLOCK)
        position = -1
        for _ in range(left):
            position = data.find(_NEWLINE, position + 1)
            if position < 0:
                return None
        start = block * BLOCK + position + 1
        return start if start < self.size else None


def follow(path: str, offset: int, *, ended: Callable[[], bool], wait: Callable[[], None]) -> Iterator[bytes]:
    """Bytes of a log from an offset, in order, nothing twice, until the run has ended and its last byte was given.

    `wait` is called when there is nothing new: it sleeps, and may raise to stop. `ended` is asked before the last look
    at the file, so that what a run wrote just before it ended is not lost. A log that was truncated or replaced is
    given from its new start. Raises StorageError when the file cannot be read.
    """
    generation = 0
    with contextlib.closing(LogFile(path)) as log:
        while True:
            over = ended()
            log.poll()
            if log.problem is not None:
                raise log.problem
            if log.generation != generation:
                generation, offset = log.generation, 0
            while data := log.read(offset, 1 << 18):
                offset += len(data)
                yield data
            if over:
                return
            wait()


def _clean_cut(data: bytes) -> bytes:
    """The start of a line without half a character or half an escape sequence at its end."""
    escape = data.rfind(b"\x1b", -24)
    if escape >= 0 and not data[escape + 2 :].strip(b"0123456789;:"):
        return data[:escape]
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return data[: len(data) - len(decoder.getstate()[0])]
