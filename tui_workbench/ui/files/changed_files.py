"""How many files differ from the last commit, asked of git as seldom as one can without being wrong for long.

The invariants: git writes nothing and runs no program that the repository names for its own speed; a large repository
is asked seldom, so that asking takes less than a hundredth of the time.
"""

from __future__ import annotations

import os
import subprocess
import time

from tui_workbench.core import processes, trace
from tui_workbench.core.foreign_git import status_environment

REST_SECONDS = 15.0
"""Between two looks when nothing hints at a change: files can change without any sign in their folder."""

LEAST_SECONDS = 2.0
"""Between two looks in any case."""

SHARE = 100
"""A look that took a second is not made again for a hundred."""

LIMIT_SECONDS = 20.0

_COMMAND = (
    "git", "--no-optional-locks", "status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=all",
)  # fmt: skip


class ChangedFiles:
    """Counts the files of a repository that are not as in the last commit. Its calls block."""

    def __init__(self, root: str) -> None:
        self.number = 0
        self._root = root
        self._next = 0.0
        self._earliest = 0.0
        self._index = 0

    def expect(self) -> None:
        """Something was changed: look as soon as may be."""
        self._next = 0.0

    def look(self) -> bool:
        """Count again when it is time; true when the number is another one."""
        now = time.monotonic()
        index = self._time_of_index()
        due = now >= self._next or index != self._index
        if not due or now < self._earliest or not os.path.exists(os.path.join(self._root, ".git", "HEAD")):
            return False
        self._index = index
        before, self.number = self.number, self._count()
        took = time.monotonic() - now
        self._earliest = now + max(LEAST_SECONDS, SHARE * took)
        self._next = now + max(REST_SECONDS, SHARE * took)
        return self.number != before

    def _time_of_index(self) -> int:
        try:
            return os.stat(os.path.join(self._root, ".git", "index")).st_mtime_ns
        except OSError:
            return 0

    def _count(self) -> int:
        """0 where git is missing, takes too long, or does not trust the folder."""
        try:
            environment = status_environment(self._root)
            done = processes.run(
                _COMMAND, kind=trace.GIT, folder=self._root, environment=environment, timeout=LIMIT_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired):
            return 0
        return done.stdout.count(b"\0") if done.returncode == 0 else 0
