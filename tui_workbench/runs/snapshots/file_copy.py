"""Copy files. To save disk space, holes are kept, and blocks are shared if the file system supports this."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import BinaryIO

from tui_workbench.core import system
from tui_workbench.core.files import open_new, open_regular, write_all
from tui_workbench.core.holes import data_parts

_CHUNK = 1 << 20


def can_clone(source: str, folder: str) -> bool:
    """Return True if a copy of the file `source` in `folder` can share its blocks. No file remains."""
    try:
        with open_regular(source) as reading, open(system.unnamed_file(folder), "wb") as writing:
            return _clone(reading, writing)
    except OSError:
        return False


def clone_file(source: str, destination: str, mode: int) -> bool:
    """Copy a regular file to a new file that shares its blocks.

    If that is not possible, the new file stays empty and False is returned. Raises OSError.
    """
    with open_regular(source) as reading, open_new(destination, mode) as writing:
        return _clone(reading, writing)


def copy_file(source: str, destination: str) -> None:
    """Copy a regular file to a new file, with its permissions and its mtime. Raises OSError."""
    with open_regular(source) as reading, open_new(destination) as writing:
        status = os.fstat(reading.fileno())
        copy_content(reading, writing)
        os.fchmod(writing.fileno(), status.st_mode & 0o777)
        os.utime(writing.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))


def copy_content(reading: BinaryIO, writing: BinaryIO, on_progress: Callable[[int], None] | None = None) -> None:
    """Copy an open file to an empty open file. Raises OSError.

    `on_progress` is called with the number of bytes copied so far.
    """
    if _clone(reading, writing):
        return
    source, copy = reading.fileno(), writing.fileno()
    size = os.fstat(source).st_size
    for begin, end in data_parts(source, size):
        os.lseek(copy, begin, os.SEEK_SET)
        while begin < end and (data := os.pread(source, min(end - begin, _CHUNK), begin)):  # empty if truncated
            write_all(copy, data)
            begin += len(data)
            if on_progress is not None:
                on_progress(begin)
    os.ftruncate(copy, size)  # the file can end with a hole, which was not written


def _clone(reading: BinaryIO, writing: BinaryIO) -> bool:
    try:
        system.share_blocks(reading.fileno(), writing.fileno())
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise  # the disk is full or damaged, so that a copy of the content would fail too
        return False
    return True
