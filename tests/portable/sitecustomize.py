"""Remove what only Linux has from Python, when `run.sh` runs tests. Each interpreter imports this at its start."""

from __future__ import annotations

import contextlib
import os
import select
import time

_LINUX = {
    os: ("O_TMPFILE", "eventfd", "memfd_create", "pidfd_open", "pipe2", "sendfile"),
    select: ("epoll",),
    time: ("CLOCK_BOOTTIME",),
}

for module, names in _LINUX.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)

with contextlib.suppress(ImportError):  # the interpreters of some tests do not have it
    import psutil

    psutil.PROCFS_PATH = os.environ["WORKBENCH_TEST_PROC"]
