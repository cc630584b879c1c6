"""A file that grows, read from where the last look at it ended; each byte is read once."""

from __future__ import annotations

import os
import stat

from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 4 << 20
"""Bytes that are read at once."""

MARK = 64
"""Bytes before the place that was read to, by which a file is known that was written anew under the same number."""

LONGEST_LINE = 64 << 20
"""A line beyond this is no record of anything, and is passed over."""


class Tail:
    """Reads `path` as it grows; a file that was replaced, cut short or removed is read anew.

    A caller that sees `began_anew` forgets what it knew from the file.
    """

    def __init__(self, path: str, *, at_most: int = 0) -> None:
        """With `at_most`, only so many bytes of a larger file are read: one half at its beginning, one at its end."""
        self.path = path
        self._half = at_most // 2
        self.offset = 0
        """Of the first byte that was not taken yet."""
        self.began_anew = False
        self._identity: tuple[int, int] | None = None
        self.in_part_of_line = False
        """Whether what comes next, up to the first line end, belongs to a line whose beginning was passed over."""
        self.size = 0
        """Of the file when it was opened last."""
        self._mark = b""

    @property
    def at_end(self) -> bool:
        """Whether everything that the file held when it was opened has been taken."""
        return self.offset >= self.size

    def blocks(self) -> Iterator[bytes]:
        """What was not taken yet, in blocks of whole lines; a last line without its end waits for the next call."""
        for chunk in self.chunks():
            end = chunk.rfind(b"\n") + 1
            self.offset -= len(chunk) - end
            start = 0
            if self.in_part_of_line and end:
                start = chunk.find(b"\n") + 1
                self.in_part_of_line = False
            if end > start:
                yield chunk[start:end] if start or end < len(chunk) else chunk
            elif len(chunk) >= LONGEST_LINE:
                self.offset += len(chunk)
                self.in_part_of_line = True

    def chunks(self) -> Iterator[bytes]:
        """What was not taken yet. Before the next piece a caller may lower `offset`, to get the end of one again."""
        self.began_anew = False
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            # It may be on its way from one name to another; what was read of it stays until there is another.
            return
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return
            self._recognize(status, descriptor)
            self.size = status.st_size
            usual = size = min(CHUNK, self._half or CHUNK)
            while self.offset < status.st_size:
                if self._half and self._half <= self.offset < status.st_size - self._half:
                    self.offset, self.in_part_of_line, self._mark = status.st_size - self._half, True, b""
                before = self.offset
                data = os.pread(descriptor, min(size, status.st_size - before), before)
                if not data:
                    return
                self.offset = before + len(data)
                try:
                    yield data
                finally:
                    taken = self.offset - before
                    if 0 < taken <= len(data):
                        self._mark = data[max(0, taken - MARK) : taken]
                    elif taken:
                        self._mark = b""  # the caller has passed over something
                if self.offset == before:
                    if before + len(data) >= status.st_size:
                        return
                    size *= 2
                else:
                    size = usual
        except OSError:
            return
        finally:
            os.close(descriptor)

    def was_replaced(self) -> bool:
        """Whether another file stands at the path by now, or this one was cut short."""
        try:
            status = os.stat(self.path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) != self._identity or status.st_size < self.offset

    def _recognize(self, status: os.stat_result, descriptor: int) -> None:
        identity = (status.st_dev, status.st_ino)
        if self._identity is not None and (
            identity != self._identity
            or status.st_size < self.offset
            or (status.st_size > self.offset and not self._still_ends(descriptor))
        ):
            self.offset, self.began_anew, self.in_part_of_line, self._mark = 0, True, False, b""
        self._identity = identity

    def _still_ends(self, descriptor: int) -> bool:
        """Whether what was read last still stands where it stood."""
        length = len(self._mark)
        return length > self.offset or os.pread(descriptor, length, self.offset - length) == self._mark
