"""Read growing files incrementally."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

from tui_workbench.core.files import open_regular
from tui_workbench.core.holes import end_of_hole
from tui_workbench.runs.metrics.values import Columns
from tui_workbench.runs.store.logged import FAULTS

CHUNK = 4 << 20  # number of bytes that are read at once
MARK = 64  # number of bytes before the offset that are compared, to detect a file that was rewritten in place
LONGEST_LINE = 16 << 20  # maximum length of a line in bytes; a longer line is not a record, and is skipped


class Opened(NamedTuple):
    """An open file."""

    file: BinaryIO
    size: int  # in bytes
    identity: tuple[int, int] | None  # None if the content is certainly that of the file that was read before


class Tail:
    """An incremental reader of the file at `path`.

    If the file was replaced, truncated or rewritten, it is read from its start, and `restarted` is True. The caller
    must then discard the data that it read before.
    """

    def __init__(self, path: str, *, at_most: int = 0) -> None:
        """With `at_most`, read about this number of new bytes at once: half from their start and half from their end.

        `skipped` counts the bytes between the halves. Large holes are skipped too, and are not counted.
        """
        self.path = path
        self.at_most = at_most
        self.skipped = 0
        self.offset = 0  # of the first unread byte
        self.restarted = False
        self._identity: tuple[int, int] | None = None
        self.inside_line = False
        """True if the bytes up to the next line ending belong to a line whose beginning was skipped."""
        self.size = 0  # size of the file when it was last opened
        self._mark = b""

    @property
    def unread(self) -> int:
        """Number of unread bytes of the file."""
        try:
            with self._open() as opened:
                return opened.size - self.offset
        except OSError:
            return 0

    def blocks(self, *, piece: int = 0, ends: bytes = b"\n", ended: bool = False) -> Iterator[bytes]:
        """Yield the unread bytes in blocks of whole lines, which end with one of the bytes `ends`.

        An incomplete last line is left for the next call, unless `ended` is set.
        """
        for chunk in self.chunks(piece=piece):
            end = max(chunk.rfind(ending) for ending in ends) + 1
            self.offset -= len(chunk) - end
            start = 0
            if self.inside_line and end:
                start = min(offset for ending in ends if (offset := chunk.find(ending)) >= 0) + 1
                self.inside_line = False
            if ended and self.offset + len(chunk) - end >= self.size and not self.inside_line:
                self.offset += len(chunk) - end
                end = len(chunk)
            if end > start:
                yield chunk[start:end]
            elif len(chunk) >= LONGEST_LINE:
                self.offset += len(chunk)
                self.inside_line = True

    def chunks(self, *, piece: int = 0) -> Iterator[bytes]:
        """Yield the unread bytes. The caller can lower `offset` to get the end of a chunk again in the next chunk.

        With `piece`, read about this number of bytes and skip none. The next call continues after them.
        """
        self.restarted = False
        # The file can be missing during a rename. The data that was read stays valid until another file appears.
        with contextlib.suppress(*FAULTS), self._open() as opened:
            self._recognize(opened)
            self.size = opened.size
            yield from self._chunks(opened, piece)

    @contextlib.contextmanager
    def _open(self) -> Iterator[Opened]:
        """Open the file. Raises OSError."""
        with open_regular(self.path) as file:
            status = os.fstat(file.fileno())
            yield Opened(file, status.st_size, (status.st_dev, status.st_ino))

    def _chunks(self, opened: Opened, piece: int) -> Iterator[bytes]:
        file = opened.file
        half = self.at_most // 2
        usual_size = size = min(CHUNK, piece or half or CHUNK)
        begun = self.offset
        while self.offset < self.size and not 0 < piece <= self.offset - begun:
            # The caller may have left an incomplete line at the end of the first half.
            last_half = self.size - half
            if half and not piece and begun + half // 2 < self.offset < last_half:
                self.skipped += last_half - self.offset
                self.offset, self.inside_line, self._mark = last_half, True, b""
            before = self.offset
            # The offsets of compressed lines are not those of the file.
            end = before if opened.identity is None else end_of_hole(file.fileno(), before, self.size)
            if end > before:
                self.offset, self.inside_line, self._mark = end, True, b""
                continue
            data = _read_at(file, before, min(size, self.size - before))
            if not data:
                return
            self.offset = before + len(data)
            yield data
            taken = self.offset - before
            if taken:  # more than the chunk if the caller has skipped bytes
                self._mark = data[max(0, taken - MARK) : taken] if taken <= len(data) else b""
                size = usual_size
            elif before + len(data) < self.size:
                size *= 2  # the caller needs more bytes for a whole line or record
            else:
                return

    def rewind(self) -> None:
        """Read the file from its start again. The caller must discard the data that it read before."""
        self.offset, self.inside_line, self._mark, self.skipped = 0, False, b"", 0

    def was_replaced(self) -> bool:
        """Return True if there is another file at the path, or the file was truncated."""
        try:
            status = os.lstat(self.path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) != self._identity or status.st_size < self.offset

    def _recognize(self, opened: Opened) -> None:
        is_other = opened.size < self.offset
        if opened.identity is not None:
            is_other |= self._identity not in (None, opened.identity)
            is_other |= opened.size > self.offset and not self._still_ends(opened.file)
        if is_other:
            self.offset, self.restarted, self.inside_line, self._mark, self.skipped = 0, True, False, b"", 0
        self._identity = opened.identity

    def _still_ends(self, file: BinaryIO) -> bool:
        """Return True if the last bytes that were read are still at the same offset."""
        length = len(self._mark)
        return length > self.offset or _read_at(file, self.offset - length, length) == self._mark


def _read_at(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


class Reader:
    """A source of metrics that is read incrementally into `columns`. Subclasses parse one file format."""

    source = ""  # one of values.SOURCES
    tail_type = Tail

    def __init__(self, path: str, *, at_most: int = 0) -> None:
        self.tail = self.tail_type(path, at_most=at_most)
        self.columns = Columns()

    @property
    def path(self) -> str:
        return self.tail.path

    @property
    def group(self) -> str:
        """The folder or file that identifies curves. Readers of the same group contribute to the same curves."""
        return ""

    @property
    def always_labeled(self) -> bool:
        """True if the names of metrics always have the label of the group as prefix."""
        return False

    def refresh(self, *, ended: bool = False) -> bool:
        """Read new data. Return True if there was new data. Pass `ended` if the file will not grow."""
        return self.read(self.tail.blocks())

    def read(self, blocks: Iterable[bytes]) -> bool:
        """Parse blocks of whole lines. Return True if there were any."""
        has_read = False
        for block in blocks:
            if self.tail.restarted and not has_read:
                self.reset()
            has_read = True
            self.parse(block)
        return has_read

    def reset(self) -> None:
        """Discard the metrics of an earlier file at the path."""
        self.columns = Columns()

    def parse(self, block: bytes) -> None:
        """Add the metrics of a block of whole lines."""
        raise NotImplementedError
