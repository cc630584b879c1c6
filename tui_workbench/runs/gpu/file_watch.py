"""Measure the time since the files of an active run last changed."""

from __future__ import annotations

from collections.abc import Callable

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.targets.gpu.activity import LOOK_SECONDS, Silence, log_mark


class FileWatch:
    """The time since the files of the run in `directory` last changed.

    The run directory on this machine contains the logs of the run, or copies of them. Listing the files of the run may
    need a connection to another machine, so `files` is called only while the logs do not change. `files` returns a text
    that changes with the files, including the logs on that machine; "" if the files cannot be listed.
    """

    def __init__(self, directory: str, files: Callable[[], str]) -> None:
        self._directory = directory
        self._files = files
        self._silence = Silence()
        self._due = 0.0

    def quiet(self, now: float) -> float | None:
        """Return the seconds since the last change, or None if unknown. `now` is the current time in seconds."""
        is_first = not self._silence.is_known
        self._silence.see_logs(log_mark(self._directory), now)
        if is_first:
            self._due = now
            return None
        quiet = self._silence.seconds(now)
        if quiet < LOOK_SECONDS:
            self._due = now - quiet + LOOK_SECONDS
        elif now >= self._due:
            # List the files at multiples of LOOK_SECONDS, so that they are listed before a limit in minutes is reached.
            self._due += LOOK_SECONDS * ((now - self._due) // LOOK_SECONDS + 1)
            if not self._see_files(now):
                self._silence = Silence()
                return None
        return self._silence.seconds(now)

    def _see_files(self, now: float) -> bool:
        """List all files. Return False if they cannot be listed now."""
        try:
            mark = self._files()
        except (WorkbenchError, OSError):
            return False
        self._silence.see_files(mark, now)
        return bool(mark)
