"""Copies of files that take no more space than they must: shared blocks where the file system can, holes kept."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator

from tui_workbench.core.files import open_regular

_FICLONE = 0x40049409
"""The ioctl of Linux that makes a file share the blocks of another one."""

_CHUNK = 1 << 26


def can_clone(source: str, folder: str) -> bool:
    """True when a copy of the file `source` in `folder` would share its blocks. Leaves nothing behind."""
    try:
        with (
            open_regular(source) as reading,
            open(os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600), "wb") as writing,
        ):
            return _clone(reading.fileno(), writing.fileno())
    except OSError:
        return False


def copy_file(source: str, destination: str, *, mode: int = -1, clone_only: bool = False) -> bool:
    """Copy a regular file to a path that is not there yet, with its permissions and its time of modification.

    With a `mode` the copy has that, less the umask, and the time of now. With `clone_only` false is returned, and
    nothing is left, where blocks cannot be shared. Links are not followed. Raises OSError.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open_regular(source) as reading:
        status = os.fstat(reading.fileno())
        with open(os.open(destination, flags, 0o600 if mode < 0 else mode), "wb") as writing:
            if not clone_only:
                copy_content(reading.fileno(), writing.fileno())
            elif not _clone(reading.fileno(), writing.fileno()):
                os.unlink(destination)
                return False
            if mode < 0:
                os.fchmod(writing.fileno(), status.st_mode & 0o777)
                os.utime(writing.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
    return True


def copy_content(reading: int, writing: int, told: Callable[[int], None] | None = None) -> None:
    """Make the empty file open as `writing` a copy of the one open as `reading`. Raises OSError.

    `told` is called with the bytes that are done.
    """
    if _clone(reading, writing):
        return
    size = os.fstat(reading).st_size
    for begin, end in _data(reading, size):
        os.lseek(writing, begin, os.SEEK_SET)
        while begin < end and (copied := os.sendfile(writing, reading, begin, min(end - begin, _CHUNK))):
            begin += copied  # 0 when it was cut short meanwhile
            if told is not None:
                told(begin)
    os.ftruncate(writing, size)


def _clone(reading: int, writing: int) -> bool:
    try:
        fcntl.ioctl(writing, _FICLONE, reading)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        return False
    return True


def _data(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each part of a file that is no hole."""
    end = 0
    while end < size:
        try:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:  # only holes are left
                yield end, size
            return
        yield begin, min(end, size)
