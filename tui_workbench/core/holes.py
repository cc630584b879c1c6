"""The parts of sparse files that contain data.

A hole is a part of a file to which nothing was written. It needs no disk space, and reads as NUL bytes. A script can
make a hole of any size in an instant, for example by writing to a log that was truncated. Readers and copies of files
of runs therefore skip large holes, so that the time to read a file depends on the disk space that it uses.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import BinaryIO

LARGE = 1 << 20
"""Minimum size in bytes of a hole that readers skip. Smaller holes are read as NUL bytes."""


def end_of_hole(descriptor: int, offset: int, size: int) -> int:
    """Return the end of a large hole that begins at, or contains, `offset`; `offset` if there is none.

    `size` is the size of the file in bytes. File systems without holes report data everywhere.
    """
    if size - offset < LARGE:
        return offset
    try:
        position = os.lseek(descriptor, 0, os.SEEK_CUR)
        data = os.lseek(descriptor, offset, os.SEEK_DATA)
        os.lseek(descriptor, position, os.SEEK_SET)  # a buffered reader relies on its position
    except OSError as error:
        return size if error.errno == errno.ENXIO else offset  # ENXIO: the hole extends to the end of the file
    return min(data, size) if data - offset >= LARGE else offset


def lines(file: BinaryIO, longest: int) -> Iterator[bytes]:
    """Yield the lines of a file from its position, without large holes.

    A line of more than `longest` bytes is divided. A line before or after a hole may be incomplete. Raises OSError.
    """
    size = os.fstat(file.fileno()).st_size
    while line := file.readline(longest):
        yield line
        if not line.endswith(b"\n"):
            file.seek(end_of_hole(file.fileno(), file.tell(), size))


def last_part(descriptor: int, begin: int, size: int) -> tuple[int, int]:
    """Return the start and end of the last part of a file that has no large holes.

    Only the bytes from `begin` to `size` count. Without data, the part is empty and begins at `begin`.
    """
    start = end = begin
    for first, last in data_parts(descriptor, size, begin):
        start, end = (first if first - end >= LARGE else start), last
    return start, (end if size - end >= LARGE else size)


def data_parts(descriptor: int, size: int, end: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each part of a file that is not a hole. `end` is the offset to begin at."""
    while end < size:
        try:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:  # ENXIO means that only holes are left
                yield end, size
            return
        yield begin, min(end, size)
