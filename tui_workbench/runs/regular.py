"""Opening files that a script of somebody's could have put there: a pipe or device in the place of one never blocks."""

from __future__ import annotations

import errno
import os
import stat

from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import BinaryIO


def open_regular(path: str) -> BinaryIO:
    """The file at `path`, to be read. Raises OSError, also when it is no regular file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", path)
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise
