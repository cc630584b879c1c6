"""The command line in a process in which one system call fails: `python injecting.py COUNTER NTH ERRNO WORD...`.

The file COUNTER counts the calls that change files, in this process and its children; call number NTH fails.
"""

from __future__ import annotations

import fcntl
import os
import shutil as _shutil  # noqa: F401  (it looks at what the functions of `os` can do as it is loaded)
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS = ("write", "fsync", "rename", "replace", "mkdir", "link", "unlink", "pwrite", "ftruncate")


def count(path: str, pread: Any = os.pread, pwrite: Any = os.pwrite) -> int:
    """Return the number of this call, from 1."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        number = int(pread(descriptor, 20, 0) or b"0") + 1
        pwrite(descriptor, b"%d" % number, 0)
        return number
    finally:
        os.close(descriptor)


def install(counter: str, nth: int, error: int) -> None:
    """Make the nth call fail."""

    def failing(call: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*arguments: Any, **options: Any) -> Any:
            to_terminal = call.__name__ == "write" and arguments[0] in (1, 2)
            if not to_terminal and count(counter) == nth:
                raise OSError(error, os.strerror(error))
            return call(*arguments, **options)

        return instead

    for name in CALLS:
        setattr(os, name, failing(getattr(os, name)))


def main() -> None:
    """Run the command line."""
    counter, nth, error, *words = sys.argv[1:]
    install(counter, int(nth), int(error))
    sys.argv[1:] = words
    from tui_workbench.__main__ import main as command

    command()


if __name__ == "__main__":
    main()
