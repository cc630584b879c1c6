"""Read a log by byte offset, with a sparse index of its lines.

All calls refer to the file at the last `poll` (`size` bytes of one `generation`), so that their results are consistent
while a run continues to write. The index has one number for each 64 KiB of the log: 128 KiB of memory for a gigabyte.
Only the requested lines are read, so that opening a log at its end takes the same time for any size. A script can make
a hole of any size, which would take hours to search: only the part after the last large hole is shown, and at most
`MOST_SHOWN` bytes of it. The classes are not thread-safe.
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
from tui_workbench.core.files import open_regular
from tui_workbench.core.holes import last_part

BLOCK = 1 << 16  # bytes between two entries of the index, and maximum size of a read that looks for a newline
MOST_SHOWN = 4 << 30  # maximum number of bytes that are shown and searched; counting their lines takes some seconds
LINE_CAP = 1 << 14  # maximum number of bytes of a line that are shown
FIRST_READ = 1 << 14  # bytes of the first read for a page of lines; later reads double the size

_NEWLINE = b"\n"


class LogLine(NamedTuple):
    """A line, or the shown part of a long line."""

    start: int  # offset of its first byte
    stop: int  # offset of its newline, or the end of the file
    end: int  # offset of the next line
    data: bytes  # without the newline; a part of a line longer than `LINE_CAP`
    cut: int = 0  # number of omitted bytes: positive if the end of the line is omitted, negative if its start is


class LogFile:
    """Access to the lines of a log file.

    The file can be missing, and it can grow. If it is truncated or replaced, `generation` increases and older offsets
    are invalid. If the file cannot be read, it counts as empty, and `problem` is set. Close the object, or use it as a
    context manager.
    """

    def __init__(self, path: str, *, end: int | None = None) -> None:
        """With `end`, the bytes after this offset are ignored."""
        self.path = path
        self._file_end = end
        self._file_size = 0  # with a hole at the end of the file, which is not shown
        self.size = 0  # offset of the end of the shown part, at the last `poll`
        self.counted = 0  # offset up to which the newlines after `begin` are counted
        self.begin = 0  # offset of the first byte that is shown; it counts as the start of a line
        self.generation = 0  # increases when the file is truncated or replaced
        self.problem: StorageError | None = None  # error of an unreadable file; None for a missing file
        self._descriptor = -1
        self._identity: tuple[int, int] | None = None
        self._forget()

    def __enter__(self) -> LogFile:
        self.poll()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. `poll` opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
        self._identity = None

    def poll(self) -> bool:
        """Check the file. Return True if its size, `generation` or readability has changed."""
        before = (self.size, self.generation, self.problem is None)
        try:
            self._check_file()
        except FileNotFoundError:
            # A deleted file is still readable while it is open.
            self.problem = None
        except OSError as error:
            self.close()
            self._start_over()
            self.problem = StorageError(
                f"cannot read the log: {error.strerror or error}",
                file=self.path,
                remedy="Check that the log is a file, and that you have permission to read it.",
            )
        return (self.size, self.generation, self.problem is None) != before

    def _check_file(self) -> None:
        status = os.stat(self.path)
        if (status.st_dev, status.st_ino) != self._identity:
            self.close()
            with open_regular(self.path) as file:
                self._descriptor = os.dup(file.fileno())
            status = os.fstat(self._descriptor)
            self._identity = (status.st_dev, status.st_ino)
            self._start_over()
        size = status.st_size if self._file_end is None else min(status.st_size, self._file_end)
        if size < self._file_size:
            self._start_over()
        self.problem = None
        if size == self._file_size == self.size:
            return
        begin, end = last_part(self._descriptor, self.size or max(0, size - MOST_SHOWN), size)
        if self.size and (begin > self.size or end - self.begin > 2 * MOST_SHOWN):
            self._start_over()  # a hole or a very long part has appeared after the shown part
            begin, end = last_part(self._descriptor, max(begin, end - MOST_SHOWN), size)
        if not self.size:
            self.begin = self.counted = begin // BLOCK * BLOCK
        self._file_size, self.size = size, end

    def _start_over(self) -> None:
        if self.size:
            self.generation += 1
        self.size = self.begin = self._file_size = 0
        self._forget()

    def _forget(self) -> None:
        self._totals = array("Q")  # number of newlines up to the end of each complete block
        self._beyond = 0  # number of newlines after the last complete block, up to `counted`
        self.counted = 0
        self._long_range = (0, 0)  # the last long range without newlines that was found, from the start of a line

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from an offset, or fewer at the end of the file or if it was truncated."""
        length = min(length, self.size - offset)
        if length <= 0 or self._descriptor < 0:
            return b""
        try:
            data = os.pread(self._descriptor, length, offset)
            while len(data) < length and (more := os.pread(self._descriptor, length - len(data), offset + len(data))):
                data += more
        except OSError:
            return b""  # the next poll reports the error
        return data

    def lines_from(self, start: int, count: int) -> list[LogLine]:
        """Return up to `count` lines from `start`, which must be the start of a line or before `begin`."""
        lines: list[LogLine] = []
        start = max(start, self.begin)
        data, base, length = b"", start, FIRST_READ
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
                    break  # truncated: the next poll reports it
                length *= 2
                continue
            lines.append(line)
            start = line.end
        return lines

    def lines_before(self, end: int, count: int) -> list[LogLine]:
        """Return up to `count` lines before `end`, which must be the start of a line or the end of the file."""
        start = self.start_before(end, count)
        return [line for line in self.lines_from(start, count) if line.start < end]

    def start_before(self, end: int, count: int) -> int:
        """Return the start of the last `count` lines before `end`, or `begin` if there are fewer.

        A partial line counts.
        """
        if count <= 0:
            return end
        position = end - 1 if self._ends_with_newline(end) else end
        while position > self.begin:
            start = (position - 1) // BLOCK * BLOCK
            data = self.read(start, position - start)
            newlines = data.count(_NEWLINE)
            if newlines >= count:
                newline = len(data)
                for _ in range(count):
                    newline = data.rfind(_NEWLINE, 0, newline)
                return start + newline + 1
            count -= newlines
            position = start if newlines else self._find_newline_back(start) + 1
        return self.begin

    def line_start(self, offset: int) -> int:
        """Return the start of the line that contains the offset. A newline belongs to the line that it ends."""
        return self._find_newline_back(min(offset, self.size)) + 1

    def line_end(self, start: int) -> int:
        """Return the start of the line after the line at `start`, or the end of the file."""
        return min(self._line_stop(start, start) + 1, self.size)

    def _line(self, start: int, stop: int, data: bytes) -> LogLine:
        """Return the line at `start`. `stop` is the offset of its newline, or the end of the file.

        `data` contains the bytes of the line, or b"" if they have not been read.
        """
        end = min(stop + 1, self.size)
        length = stop - start
        if length <= LINE_CAP:
            return LogLine(start, stop, end, data or self.read(start, length))
        tail = self.read(stop - LINE_CAP, LINE_CAP)
        carriage_return = tail.find(b"\r", 0, -1)
        # A progress bar is one long line with carriage returns, of which only the end is visible.
        if carriage_return >= 0:
            shown = tail[carriage_return + 1 :]
            return LogLine(start, stop, end, shown, len(shown) - length)
        shown = _clean_cut(self.read(start, LINE_CAP))
        return LogLine(start, stop, end, shown, length - len(shown))

    def _ends_with_newline(self, end: int) -> bool:
        return end > 0 and self.read(end - 1, 1) == _NEWLINE

    def _line_stop(self, start: int, offset: int) -> int:
        """Return the offset of the first newline from `offset` in the line at `start`, or the end of the file."""
        while offset < self.size:
            if self._long_range[0] <= offset < self._long_range[1]:
                offset = self._long_range[1]
            data = self.read(offset, BLOCK)
            newline = data.find(_NEWLINE)
            offset += newline if newline >= 0 else len(data)
            if newline >= 0 or not data:
                break
        if offset - start > 4 * BLOCK:
            self._long_range = (start, offset)
        return min(offset, self.size)

    def _find_newline_back(self, end: int) -> int:
        """Return the offset of the last newline before an offset, or that of the byte before `begin`."""
        last, step, newline = end, FIRST_READ, self.begin - 1
        while end > self.begin and newline < self.begin:
            if self._long_range[0] < end <= self._long_range[1]:
                newline = self._long_range[0] - 1
                break
            start = max((end - 1) // BLOCK * BLOCK, end - step)
            step = BLOCK  # the first, smaller read is enough for most lines
            position = self.read(start, end - start).rfind(_NEWLINE)
            newline, end = start + position if position >= 0 else newline, start
        if last - newline > 4 * BLOCK:
            self._long_range = (newline + 1, last)
        return newline

    def index(self, budget: int = 1 << 20) -> bool:
        """Count the newlines in up to `budget` more bytes. Return True at the end of the file."""
        end = min(self.size, self.counted + budget)
        while self.counted < end:
            limit = min(end, self._offset_of(len(self._totals) + 1))
            data = self.read(self.counted, limit - self.counted)
            if not data:
                return True  # truncated: the next poll reports it
            self._beyond += data.count(_NEWLINE)
            self.counted += len(data)
            if self.counted == self._offset_of(len(self._totals) + 1):
                self._totals.append((self._totals[-1] if self._totals else 0) + self._beyond)
                self._beyond = 0
        return self.counted >= self.size

    def _offset_of(self, block: int) -> int:
        return self.begin + block * BLOCK

    @property
    def newlines(self) -> int:
        """Number of newlines from `begin` to `counted`."""
        return (self._totals[-1] if self._totals else 0) + self._beyond

    @property
    def line_count(self) -> int | None:
        """Number of lines, including an incomplete last line; None while the count is incomplete."""
        if self.counted < self.size:
            return None
        return self.newlines + bool(self.size and not self._ends_with_newline(self.size))

    def line_number(self, offset: int) -> int | None:
        """Return the number (from 0) of the line that contains the offset, or None if it is not counted yet.

        The line at `begin` has the number 0.
        """
        if offset > self.counted:
            return None
        offset = max(offset, self.begin)
        block = min((offset - self.begin) // BLOCK, len(self._totals))
        before = self._totals[block - 1] if block else 0
        return before + self.read(self._offset_of(block), offset - self._offset_of(block)).count(_NEWLINE)

    def line_offset(self, number: int) -> int | None:
        """Return the start of a line, given by number (from 0), or None if it does not exist or is not counted yet."""
        if number <= 0:
            return self.begin
        if number > self.newlines:
            return None
        block = bisect_left(self._totals, number)
        left = number - (self._totals[block - 1] if block else 0)
        data = self.read(self._offset_of(block), BLOCK)
        position = -1
        for _ in range(left):
            position = data.find(_NEWLINE, position + 1)
            if position < 0:
                return None
        start = self._offset_of(block) + position + 1
        return start if start < self.size else None


def follow(path: str, offset: int, *, ended: Callable[[], bool], wait: Callable[[], None]) -> Iterator[bytes]:
    """Yield the bytes of a log from an offset, until the run has ended and the last byte was read.

    `wait` is called if the log has no new data. It sleeps, and can raise an exception. `ended` is called before
    each read, so that the last output of a run is not lost. A truncated or replaced log is read from its start. Raises
    StorageError if the file cannot be read.
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
    """Cut an incomplete character or escape sequence from the end of the data."""
    escape = data.rfind(b"\x1b", -24)
    if escape >= 0 and not data[escape + 2 :].strip(b"0123456789;:"):
        return data[:escape]
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return data[: len(data) - len(decoder.getstate()[0])]
