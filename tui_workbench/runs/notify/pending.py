"""Events whose notifications are not sent yet, as files in a folder of the user."""

from __future__ import annotations

import json
import os
import time

from tui_workbench.core.directories import user_state_directory
from tui_workbench.core.files import write_below

LOCK = "lock"
"""The lock of the process that sends; a file in the folder."""


def add(path: str, event: str) -> str:
    """Add an event of the run at `path`, and return the folder. Raises OSError."""
    # Several machines may share the home folder, but only this machine may have the run.
    folder = os.path.join(user_state_directory(), "notify", os.uname().nodename)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    name = f"{time.time_ns():020}-{os.getpid()}-{os.urandom(4).hex()}"
    write_below(folder, name, json.dumps([path, event]).encode(), exclusive=True)
    return folder


def names(folder: str) -> list[str]:
    """Return the names of the files of events, the oldest first. Raises OSError."""
    return sorted(name for name in os.listdir(folder) if name[:1].isdecimal())
