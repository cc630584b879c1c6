"""Copies of files that use little space: shared blocks where the file system supports them, and holes."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator

from tui_workbench.core.files import open_regular

_FICLONE = 0x40049409  # the Linux ioctl that makes a file share the blocks of another file

_CHUNK = 1 << 26


def can_clone(source: str, folder: str) -> bool:
    """Return True if a copy of the file `source` in `folder` can share its blocks. Leaves no file."""
    try:
        with (
            open_regular(source) as reading,
            open(os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600), "wb") as writing,
        ):
            return _clone(reading.fileno(), writing.fileno())
    except OSError:
        return False


def copy_file(source: str, destination: str, *, mode: int = -1, clone_only: bool = False) -> bool:
    """Copy a regular file to a path that does not exist, with its permissions and its mtime.

    With a `mode` the copy gets that mode, less the umask, and the current time. With `clone_only` return False and
    leave no file where blocks cannot be shared. Links are not followed. Raises OSError.
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


def copy_content(reading: int, writing: int, on_progress: Callable[[int], None] | None = None) -> None:
    """Copy the open file `reading` into the empty open file `writing`. Raises OSError.

    `on_progress` is called with the number of bytes copied so far.
    """
    if _clone(reading, writing):
        return
    size = os.fstat(reading).st_size
    for begin, end in _data(reading, size):
        os.lseek(writing, begin, os.SEEK_SET)
        while begin < end and (copied := os.sendfile(writing, reading, begin, min(end - begin, _CHUNK))):
            begin += copied  # 0 if the file was truncated meanwhile
            if on_progress is not None:
                on_progress(begin)
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
    """Yield start and end of each part of a file that is not a hole."""
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
