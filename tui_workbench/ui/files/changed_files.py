"""The number of files that differ from the last commit.

The invariants: git writes nothing and runs no program that the repository configures; git runs for less than
one percent of the time, and therefore rarely in large repositories.
"""

from __future__ import annotations

import os
import subprocess
import time

from tui_workbench.core.git import GitError, run_git, status_environment

REST_SECONDS = 15.0  # interval between counts if no change is known, because edits may go unnoticed
LEAST_SECONDS = 2.0  # minimum interval between counts
SHARE = 100  # a count that takes one second is followed by a pause of a hundred seconds
LIMIT_SECONDS = 20.0

_COMMAND = (
    "--no-optional-locks", "status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=all",
)  # fmt: skip


class ChangedFiles:
    """The number of files of a repository that differ from the last commit. All methods block."""

    def __init__(self, root: str) -> None:
        self.number = 0
        self._root = root
        self._next = 0.0
        self._earliest = 0.0
        self._index = 0

    def expect(self) -> None:
        """Make `update` count the files again soon, because one of them has changed."""
        self._next = 0.0

    def update(self) -> bool:
        """Count the files if a count is due; return True if the number has changed."""
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
        """Return the number of changed files; 0 if git is missing, takes too long, or does not trust the folder."""
        try:
            environment = status_environment(self._root)
            changed = run_git(*_COMMAND, environment=environment, folder=self._root, timeout=LIMIT_SECONDS)
        except (GitError, OSError, subprocess.TimeoutExpired):
            return 0
        return changed.count(b"\0")
