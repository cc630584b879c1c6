"""Taking turns: things that only one process of this machine may do at a time, with a wait that can be interrupted."""

from __future__ import annotations

import contextlib
import fcntl
import os

from tui_workbench.errors import StorageError
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets.host import wait_ready
from tui_workbench.targets.protocol import Interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator

POLL_SECONDS = 0.05


@contextlib.contextmanager
def turn(path: str, interrupted: int) -> Iterator[None]:
    """Held by one process at a time, by way of the lock file `path`; its folder is made.

    Raises Interrupted when the descriptor `interrupted` becomes readable first (-1: never), and StorageError.
    """
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StorageError(f"cannot open it: {error.strerror}", remedy="Make it writable.", file=path) from error
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if wait_ready([interrupted] if interrupted >= 0 else [], timeout=POLL_SECONDS):
                    raise Interrupted from None
        yield
    finally:
        os.close(descriptor)


def cache_turn(name: str, interrupted: int) -> contextlib.AbstractContextManager[None]:
    """The turn of this name among all processes of the user."""
    from tui_workbench.resources import user_cache_directory

    return turn(os.path.join(user_cache_directory(), "locks", file_name(name)), interrupted)


def file_name(text: str) -> str:
    """The text as the name of a file."""
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in text)
