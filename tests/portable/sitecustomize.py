"""Remove what only Linux has from Python, when `run.sh` runs tests. Each interpreter imports this at its start."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import time
from typing import Any

_LINUX = {
    fcntl: ("F_SETPIPE_SZ",),
    os: ("O_TMPFILE", "eventfd", "memfd_create", "pidfd_open", "pipe2", "sendfile"),
    select: ("epoll",),
    time: ("CLOCK_BOOTTIME",),
}

for module, names in _LINUX.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)


class _Library(ctypes.CDLL):
    """A library without `prctl`."""

    def __getattr__(self, name: str) -> Any:
        if name == "prctl":
            raise AttributeError(name)
        return super().__getattr__(name)


ctypes.CDLL = _Library  # type: ignore[misc]

with contextlib.suppress(ImportError):  # the interpreters of some tests do not have it
    import psutil

    psutil.PROCFS_PATH = os.environ["WORKBENCH_TEST_PROC"]
