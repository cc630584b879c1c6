"""A file that grows, read from where the last look at it ended; each byte is read once; and the base of all readers."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator

from tui_workbench.runs.metrics.values import Columns

CHUNK = 4 << 20
"""Bytes that are read at once."""

MARK = 64
"""Bytes before the place that was read to, by which a file is known that was written anew under the same number."""

LONGEST_LINE = 64 << 20
"""Bytes. A line beyond this is no record of anything, and is passed over."""


class Tail:
    """Reads `path` as it grows; a file that was replaced, cut short or removed is read anew.

    A caller that sees `began_anew` forgets what it knew from the file.
    """

    def __init__(self, path: str, *, at_most: int = 0) -> None:
        """With `at_most`, a look reads about so many new bytes: half at their beginning and half at their end.

        `skipped` counts the bytes between them.
        """
        self.path = path
        self.at_most = at_most
        self.skipped = 0
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
    def unread(self) -> int:
        """Bytes of the file that no look has taken yet."""
        try:
            return os.stat(self.path).st_size - self.offset
        except OSError:
            return 0

    def blocks(self, *, piece: int = 0, ends: bytes = b"\n", ended: bool = False) -> Iterator[bytes]:
        """What was not taken yet, in blocks of whole lines, which end with one of the bytes `ends`.

        A last line without its end waits for the next call, unless the file has `ended`.
        """
        for chunk in self.chunks(piece=piece):
            end = max(chunk.rfind(each) for each in ends) + 1
            self.offset -= len(chunk) - end
            start = 0
            if self.in_part_of_line and end:
                start = min(found for each in ends if (found := chunk.find(each)) >= 0) + 1
                self.in_part_of_line = False
            if ended and self.offset + len(chunk) - end >= self.size and not self.in_part_of_line:
                self.offset += len(chunk) - end
                end = len(chunk)
            if end > start:
                yield chunk[start:end]
            elif len(chunk) >= LONGEST_LINE:
                self.offset += len(chunk)
                self.in_part_of_line = True

    def chunks(self, *, piece: int = 0) -> Iterator[bytes]:
        """What was not taken yet. Before the next chunk a caller may lower `offset`, to get the end of one again.

        With `piece`, read about so many bytes and skip nothing; the next call continues there.
        """
        self.began_anew = False
        # The file may be on its way from one name to another; what was read of it stays until there is another.
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            stack.callback(os.close, descriptor)
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode):
                self._recognize(status, descriptor)
                self.size = status.st_size
                yield from self._chunks(descriptor, piece)

    def _chunks(self, descriptor: int, piece: int) -> Iterator[bytes]:
        half = self.at_most // 2
        usual = size = min(CHUNK, piece or half or CHUNK)
        begun = self.offset
        while self.offset < self.size and not 0 < piece <= self.offset - begun:
            # The caller may have left the end of the first half: the part of a line.
            last_half = self.size - half
            if half and not piece and begun + half // 2 < self.offset < last_half:
                self.skipped += last_half - self.offset
                self.offset, self.in_part_of_line, self._mark = last_half, True, b""
            before = self.offset
            data = os.pread(descriptor, min(size, self.size - before), before)
            if not data:
                return
            self.offset = before + len(data)
            yield data
            taken = self.offset - before
            if taken:  # more than all when the caller has passed over something
                self._mark = data[max(0, taken - MARK) : taken] if taken <= len(data) else b""
                size = usual
            elif before + len(data) < self.size:
                size *= 2
            else:
                return

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
            self.offset, self.began_anew, self.in_part_of_line, self._mark, self.skipped = 0, True, False, b"", 0
        self._identity = identity

    def _still_ends(self, descriptor: int) -> bool:
        """Whether what was read last still stands where it stood."""
        length = len(self._mark)
        return length > self.offset or os.pread(descriptor, length, self.offset - length) == self._mark


class Reader:
    """A file that tells metrics, read as it grows into `columns`. A kind of file says what its bytes mean."""

    source = ""  # of values.SOURCES

    def __init__(self, path: str, *, at_most: int = 0) -> None:
        self.tail = Tail(path, at_most=at_most)
        self.columns = Columns()

    @property
    def path(self) -> str:
        """The path of the file."""
        return self.tail.path

    @property
    def unit(self) -> str:
        """What it belongs to with others whose curves continue its own: a folder, or the file itself."""
        return ""

    @property
    def always_labeled(self) -> bool:
        """Whether the name of its unit belongs to the names of its metrics in any case."""
        return False

    def refresh(self, *, ended: bool = False) -> bool:
        """Read what is new; True when there was something. With `ended` nothing will follow."""
        return self.read(self.tail.blocks())

    def read(self, blocks: Iterable[bytes]) -> bool:
        """Take blocks of whole lines; True when there was one."""
        something = False
        for block in blocks:
            if self.tail.began_anew and not something:
                self.begin()
            something = True
            self.take(block)
        return something

    def begin(self) -> None:
        """Forget what an earlier file at the path told."""
        self.columns = Columns()

    def take(self, block: bytes) -> None:
        """Add what a block of whole lines tells."""
        raise NotImplementedError
