"""Locks between processes, by `flock` on an open file.

A lock belongs to the open file description: a child can inherit it, and it ends when the last holder closes it or
exits. Taking a lock raises OSError on a file system without locks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator

from tui_workbench.core.directories import user_cache_directory
from tui_workbench.core.errors import storage_errors
from tui_workbench.core.waiting import pause as wait_for

POLL_SECONDS = 0.05
"""Pause between two attempts to take a lock."""

_LOCK_FILE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def open_lock(path: str) -> int:
    """Open the lock file at `path`, and create it if necessary. Raises OSError."""
    return os.open(path, _LOCK_FILE, 0o600)


def lock(descriptor: int, *, shared: bool = False) -> None:
    """Wait until the lock is free, and take it."""
    fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Acquire the lock, or return False if another process holds it."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(descriptor: int) -> None:
    """Release the lock and keep the file open."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def is_locked(descriptor: int) -> bool:
    """Return True if another process holds the lock, or this is unknown."""
    try:
        if not try_lock(descriptor, shared=True):
            return True
        unlock(descriptor)
    except OSError:
        return True
    return False


@contextlib.contextmanager
def held(descriptor: int, pause: Callable[[], object] | None = None) -> Iterator[int]:
    """Hold the lock of an open file, and close the file at the end.

    `pause` is called between the attempts, and may raise an exception. If it is None, the wait is unlimited.
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
    """Hold the lock file at `path`, which is created with its folder.

    Raises StorageError, and Interrupted when the descriptor `interrupted` becomes readable (-1: never).
    """
    with storage_errors("open", path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = open_lock(path)
    with held(descriptor, lambda: wait_for(POLL_SECONDS, interrupted)):
        yield


def cache_lock(name: str, interrupted: int = -1) -> contextlib.AbstractContextManager[None]:
    """Hold a named lock for all processes of the user, as `lock_file` does."""
    return lock_file(os.path.join(user_cache_directory(), "locks", file_name(name)), interrupted)


def file_name(text: str) -> str:
    """Return the text as a valid file name."""
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in text)
