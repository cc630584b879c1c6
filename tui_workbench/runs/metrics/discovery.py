"""Find the event files and tables that the script of a run writes. Searches are limited in size and time.

In the working copy, a file belongs to the run if it is newer than the copy. In folders that other runs also use (the
project of an untracked run, and folders to which the copy has links), the file must have been written during the run.
"""

from __future__ import annotations

import itertools
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

SKIPPED = frozenset((".git", ".workbench", "__pycache__", "node_modules", ".venv", "venv", ".ipynb_checkpoints"))

MAX_ENTRIES = 20_000  # maximum number of directory entries that a search reads; a larger tree is probably a data set

MAX_FILES = 500
MAX_DEPTH = 8
SHARE_OF_TIME = 0.05  # maximum fraction of the time that is spent on searches

LINGER_NS = 5_000_000_000
"""Files written up to this number of nanoseconds after the end of a run belong to it, because server clocks differ."""


class Root(NamedTuple):
    """A folder to search."""

    path: str
    base: str  # patterns match paths relative to this folder
    is_shared: bool = False  # other runs use the folder too


class Window(NamedTuple):
    """The time span of the run, in nanoseconds since the epoch; `end` is 0 while the run is active."""

    start: int
    end: int = 0

    def contains(self, moment: int) -> bool:
        return moment >= self.start and (not self.end or moment <= self.end + LINGER_NS)


class Discovery:
    """A repeated search for files below several folders, but not in the folders `data`.

    `is_wanted` is called with the name and the path of a file, and returns True if the search must return this file. If
    the path is empty, it returns True if files with this name are wanted in any folder.
    """

    def __init__(
        self, roots: list[Root], is_wanted: Callable[[str, str], bool], data: Collection[str] = frozenset()
    ) -> None:
        self._roots = roots
        self._data = data
        self._is_wanted = is_wanted
        self._files: dict[tuple[int, int], str] = {}  # paths by device and inode
        self._not_before = 0.0
        self.is_cut = False  # True if the search stopped at MAX_ENTRIES or MAX_FILES

    def search(self, window: Window) -> list[tuple[str, str]]:
        """Return files that are new or were moved, as pairs of old path ("" if new) and current path.

        The list is empty if the last search was too recent; see SHARE_OF_TIME.
        """
        begun = time.monotonic()
        if begun < self._not_before:
            return []
        files = list(self._walk(window))
        done = time.monotonic()
        self._not_before = done + (done - begun) / SHARE_OF_TIME
        return files

    def add(self, path: str) -> bool:
        """Register a file that another search has found. Return False if it is already known or missing."""
        try:
            status = os.stat(path)
        except OSError:
            return False
        identity = (status.st_dev, status.st_ino)
        if not stat.S_ISREG(status.st_mode) or identity in self._files:
            return False
        self._files[identity] = path
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
                with os.scandir(path) as listing:
                    entries = sorted(itertools.islice(listing, left + 1), key=lambda entry: entry.name)
            except OSError:
                continue
            left -= len(entries)
            if left < 0 or len(self._files) >= MAX_FILES:
                self.is_cut = True
                return
            for entry in entries:
                is_link = entry.is_symlink()
                if not (os.path.isdir(entry.path) if is_link else entry.is_dir(follow_symlinks=False)):
                    if self._is_wanted(entry.name, ""):
                        yield from self._new_file(f"{path}/{entry.name}", root, window)
                elif entry.name not in SKIPPED and depth < MAX_DEPTH and f"{path}/{entry.name}" not in self._data:
                    inside = root._replace(is_shared=root.is_shared or is_link)
                    pending.append((f"{path}/{entry.name}", inside, depth + 1))

    def _new_file(self, file: str, root: Root, window: Window) -> Iterator[tuple[str, str]]:
        try:
            status = os.lstat(file)  # readers follow no links to files
        except OSError:
            return
        identity = (status.st_dev, status.st_ino)
        if self._files.get(identity) == file or not stat.S_ISREG(status.st_mode):
            return
        # In the copy, compare ctime, because a checkout or `cp -p` can set any mtime.
        is_of_run = window.contains(status.st_mtime_ns) if root.is_shared else status.st_ctime_ns >= window.start
        if is_of_run and self._is_wanted(os.path.basename(file), os.path.relpath(file, root.base)):
            before = self._files.get(identity, "")
            # If the old path still exists, this path is a hard link to the same file, which must not be read twice.
            if not before or not os.path.exists(before):
                self._files[identity] = file
                yield before, file
