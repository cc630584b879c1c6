"""Events whose notifications are not sent yet: a folder for each channel, with a file for each event.

Each announced event starts a process that first loads only this module (`sender`), so it imports little.
"""

from __future__ import annotations

import contextlib
import json
import os
import time

from tui_workbench.core.directories import user_state_directory
from tui_workbench.core.files import unlink_below, write_below

LOCK = "lock"
"""The lock of the process that sends to the channel; a file in the folder of the channel."""


def folder_of(channel: str) -> str:
    """Return the folder of a channel. It may not exist."""
    # Several machines may share the home folder, but only this machine may have the run.
    return os.path.join(user_state_directory(), "notify", os.uname().nodename, channel)


def add(channel: str, path: str, event: str) -> None:
    """Add an event of the run at `path` for a channel. Raises OSError."""
    folder = folder_of(channel)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    name = f"{time.time_ns():020}-{os.getpid()}-{os.urandom(4).hex()}"
    write_below(folder, name, json.dumps([path, event]).encode(), exclusive=True)


def names(channel: str) -> list[str]:
    """Return the names of the files of a channel's events, the oldest first. Raises OSError."""
    return sorted(name for name in os.listdir(folder_of(channel)) if name[:1].isdecimal())


def discard(channel: str) -> None:
    """Remove the events of a channel. Errors are ignored."""
    with contextlib.suppress(OSError):
        for name in names(channel):
            unlink_below(folder_of(channel), name)
