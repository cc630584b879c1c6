"""Helpers for tests of files."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tui_workbench.core import trace
from tui_workbench.core.directories import user_state_directory


@contextlib.contextmanager
def ordinary_user() -> Iterator[Path]:
    """Yield a new folder; root gets the rights of `nobody`, because root may read and write everything."""
    nobody = 65534
    with tempfile.TemporaryDirectory() as name:
        if os.geteuid() == 0:
            os.chown(name, nobody, nobody)
            os.seteuid(nobody)
            try:
                yield Path(name)
            finally:
                os.seteuid(0)
        else:
            yield Path(name)


def trace_file() -> str:
    """Return the file with the external calls of all processes of this user."""
    return os.path.join(user_state_directory(), trace.FILE)
