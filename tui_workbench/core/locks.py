"""Locks between processes, based on `flock`.

A lock belongs to an open file description, which child processes can inherit. It is released when every process that
has the description has closed the file or exited. On a file system without locks, `lock` and `try_lock` raise OSError.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator

from tui_workbench.core.directories import user_cache_directory
from tui_workbench.core.errors import storage_errors
from tui_workbench.core.files import open_file
from tui_workbench.core.waiting import pause as wait_for

POLL_SECONDS = 0.05
"""Pause between two attempts to acquire a lock, in seconds."""

_LOCK_FILE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def open_lock(path: str) -> int:
    """Open the lock file at `path`, and create it if necessary. Raises OSError."""
    return os.open(path, _LOCK_FILE, 0o600)


def lock(descriptor: int, *, shared: bool = False) -> None:
    """Acquire the lock; wait until it is free."""
    fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Acquire the lock and return True, or return False if the lock is not free."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(descriptor: int) -> None:
    """Release the lock and keep the file open."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def is_locked(descriptor: int) -> bool:
    """Return True if another open file holds the lock exclusively, or if this is unknown."""
    try:
        # A shared lock fails only for an exclusive one, so that two processes that look do not see each other.
        if not try_lock(descriptor, shared=True):
            return True
        unlock(descriptor)
    except OSError:
        return True
    return False


@contextlib.contextmanager
def held(descriptor: int, pause: Callable[[], object] | None = None) -> Iterator[int]:
    """Hold the lock of an open file, and close the file at the end.

    `pause` is called between two attempts to acquire the lock, and may raise an exception. If `pause` is None, the
    call blocks until the lock is free.
    """
    try:
        if pause is None:
            lock(descriptor)
        else:
            while not try_lock(descriptor):
                pause()
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def lock_file(path: str, interrupted: int = -1) -> Iterator[None]:
    """Hold the lock of the file at `path`; create the file and its folder if necessary.

    Raises StorageError, and Interrupted when the descriptor `interrupted` becomes readable (-1: never).
    """
    with storage_errors("open", path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = open_lock(path)
    with held(descriptor, lambda: wait_for(POLL_SECONDS, interrupted)):
        yield


def cache_lock(name: str, interrupted: int = -1) -> contextlib.AbstractContextManager[None]:
    """Hold the lock `name`, which all processes of the user share. Raises the errors of `lock_file`."""
    return lock_file(_cache_path(name), interrupted)


def is_cache_locked(name: str) -> bool:
    """Return True if a process of the user holds the lock `name`, or if this is unknown. Raises OSError."""
    try:
        with open_file(_cache_path(name)) as file:
            return is_locked(file.fileno())
    except FileNotFoundError:
        return False


def _cache_path(name: str) -> str:
    return os.path.join(user_cache_directory(), "locks", file_name(name))


def file_name(text: str) -> str:
    """Return the text with `-` in place of each character that is unsafe in file names."""
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in text)
