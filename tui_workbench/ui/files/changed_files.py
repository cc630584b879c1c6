"""The number of files that differ from the last commit.

Git runs for less than one percent of the time, and therefore rarely in large repositories.
"""

from __future__ import annotations

import os
import time

from tui_workbench.core.git import GitError
from tui_workbench.core.repository import find_repository, project_git

REST_SECONDS = 15.0  # interval between counts if no change is known, because edits may go unnoticed
LEAST_SECONDS = 2.0  # minimum interval between counts
SHARE = 100  # a count that takes one second is followed by a pause of a hundred seconds

_COMMAND = ("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=all")


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
        if not due or now < self._earliest or not os.path.lexists(os.path.join(self._root, ".git")):
            return False
        self._index = index
        before, self.number = self.number, self._count()
        took = time.monotonic() - now
        self._earliest = now + max(LEAST_SECONDS, SHARE * took)
        self._next = now + max(REST_SECONDS, SHARE * took)
        return self.number != before

    def _time_of_index(self) -> int:
        try:
            repository = find_repository(self._root)
            return os.stat(repository.index_path()).st_mtime_ns if repository is not None else 0
        except (GitError, OSError):
            return 0

    def _count(self) -> int:
        """Return the number of changed files; 0 if git is missing, takes too long, or cannot read the repository."""
        try:
            with project_git(self._root) as git:
                return git.run(*_COMMAND).count(b"\0") if git is not None else 0
        except (GitError, OSError):
            return 0
