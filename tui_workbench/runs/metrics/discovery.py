"""Finds the event files and tables that a run's script writes, while it writes them, for little.

What is looked at is what the run made: a file of its own copy that is younger than the copy, and in folders that other
runs write into as well (the project of an untracked run, folders that the copy links to) one that was written while
the run was going on. A folder that has not changed is not read again.
"""

from __future__ import annotations

import itertools
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

SKIPPED = frozenset((".git", ".workbench", "__pycache__", "node_modules", ".venv", "venv", ".ipynb_checkpoints"))

MAX_ENTRIES = 20_000
"""Names that one look may read. Beyond them are data sets, which hold no metrics."""

MAX_FILES = 500
MAX_DEPTH = 8
SHARE_OF_TIME = 0.05
"""Of the time that looks may take of a process that asks again and again."""

LINGER_NS = 5_000_000_000
"""What is written this long after the end of a run may still be its own: clocks of file servers differ."""


class Root(NamedTuple):
    """A folder to look below."""

    path: str
    base: str  # that paths for patterns are named from
    is_shared: bool = False  # other runs write into it as well


class Window(NamedTuple):
    """When the run was going on, in nanoseconds since the epoch; `end` is 0 while it is."""

    start: int
    end: int = 0

    def holds(self, moment: int) -> bool:
        """Whether something of that time can be the run's."""
        return moment >= self.start and (not self.end or moment <= self.end + LINGER_NS)


class Discovery:
    """Looks for files below folders of the run's own and below others.

    `wanted` says of a file's name and path whether it is of interest; without a path whether one of the name can be.
    """

    def __init__(self, roots: list[Root], wanted: Callable[[str, str], bool]) -> None:
        self._roots = roots
        self._wanted = wanted
        self._found: dict[tuple[int, int], str] = {}
        self._not_before = 0.0
        self.is_cut = False
        """Whether there was more than is looked at."""

    def look(self, window: Window) -> list[tuple[str, str]]:
        """Files that were not found before, or not there: where they were (nothing when nowhere) and where they are.

        Does nothing when the last look was too shortly before for its costs.
        """
        begun = time.monotonic()
        if begun < self._not_before:
            return []
        news = list(self._walk(window))
        done = time.monotonic()
        self._not_before = done + (done - begun) / SHARE_OF_TIME
        return news

    def add(self, path: str) -> bool:
        """Note a file that somebody else has found; False when it is known or not there."""
        try:
            status = os.stat(path)
        except OSError:
            return False
        identity = (status.st_dev, status.st_ino)
        if not stat.S_ISREG(status.st_mode) or identity in self._found:
            return False
        self._found[identity] = path
        return True

    def _walk(self, window: Window) -> Iterator[tuple[str, str]]:
        left = MAX_ENTRIES
        seen: set[tuple[int, int]] = set()
        pending = deque((root.path, root, 0) for root in self._roots)
        self.is_cut = False
        while pending:
            path, root, depth = pending.popleft()
            try:
                status = os.stat(path)
                if (status.st_dev, status.st_ino) in seen:
                    continue
                seen.add((status.st_dev, status.st_ino))
                with os.scandir(path) as entries:
                    found = sorted(itertools.islice(entries, left + 1), key=lambda entry: entry.name)
            except OSError:
                continue
            left -= len(found)
            if left < 0 or len(self._found) >= MAX_FILES:
                self.is_cut = True
                return
            for entry in found:
                is_link = entry.is_symlink()
                if not (os.path.isdir(entry.path) if is_link else entry.is_dir(follow_symlinks=False)):
                    if self._wanted(entry.name, ""):
                        yield from self._taken(f"{path}/{entry.name}", root, window)
                elif entry.name not in SKIPPED and depth < MAX_DEPTH:
                    inside = root._replace(is_shared=root.is_shared or is_link)
                    pending.append((f"{path}/{entry.name}", inside, depth + 1))

    def _taken(self, file: str, root: Root, window: Window) -> Iterator[tuple[str, str]]:
        """Note a file when it is the run's."""
        try:
            status = os.stat(file)
        except OSError:
            return
        identity = (status.st_dev, status.st_ino)
        if self._found.get(identity) == file or not stat.S_ISREG(status.st_mode):
            return
        # In the copy the time of change and not that of modification, which a checkout or `cp -p` sets to anything.
        is_of_run = window.holds(status.st_mtime_ns) if root.is_shared else status.st_ctime_ns >= window.start
        if is_of_run and self._wanted(os.path.basename(file), os.path.relpath(file, root.base)):
            before = self._found.get(identity, "")
            # One that was not moved has a second name, and is not to be read twice.
            if not before or not os.path.exists(before):
                self._found[identity] = file
                yield before, file
