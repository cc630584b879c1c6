"""Merge the files of the members of a group, line by line. If the process is killed, no line is lost or repeated.

Before lines are appended to the merged file, a journal records the size of the merged file and the parts of the
members' files to append. The next process completes an interrupted append from the journal.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from typing import NamedTuple

from tui_workbench.core import locks
from tui_workbench.core.errors import storage_errors
from tui_workbench.core.files import load_json, make_folders, open_below, write_all, write_below
from tui_workbench.targets.hosts.supervisor import RANKS

CHUNK = 1 << 20
"""Maximum number of bytes that are read from a file of a member at once."""


class _Part(NamedTuple):
    """A part of the file of a member. `added` is appended to it."""

    member: str
    start: int
    end: int
    added: str = ""


class Merge(contextlib.AbstractContextManager["Merge"]):
    """A context manager that appends the lines of the files `ranks/MEMBER/NAME` to the file NAME in a run's directory.

    A line of more than CHUNK bytes is appended in parts. Lines of other members can be between these parts.

    Only one process merges at a time. Raises StorageError.
    """

    def __init__(self, directory: str, members: Sequence[str], name: str) -> None:
        self._directory = directory
        self._members = members
        self._name = name
        self._journal = f"{RANKS}/{name}.journal"
        self._path = os.path.join(directory, name)
        self._offsets: dict[str, int] = {}
        with storage_errors("open", self._path):
            make_folders(directory, RANKS)
            self._file = open_below(directory, name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._is_locked = False

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def pump(self) -> bool:
        """Append new complete lines; return False without new lines, or while another process merges."""
        return self._begin(wait=False) and self._merge(is_last=False)

    def finish(self) -> None:
        """Append all remaining lines, and end the last line with a line feed. Call it after the members have ended."""
        self._begin(wait=True)
        while self._merge(is_last=False):
            pass
        self._merge(is_last=True)

    def _begin(self, *, wait: bool) -> bool:
        """Lock the merged file, and complete an interrupted append. Return False if another process has the lock."""
        if self._is_locked:
            return True
        if wait:
            locks.lock(self._file)
        elif not locks.try_lock(self._file):
            return False
        self._is_locked = True
        try:
            stored = load_json(os.path.join(self._directory, self._journal))
        except (OSError, ValueError):
            return True  # nothing has been merged yet
        parts = [_Part(*part) for part in stored["parts"]]
        self._offsets = {**stored["offsets"], **{part.member: part.end for part in parts}}
        # The number of bytes of these parts that the interrupted process has appended already.
        done = os.fstat(self._file).st_size - stored["size"]
        for part in parts:
            data = self._read(part)
            self._append(data[max(0, done) :])
            done -= len(data)
        return True

    def _merge(self, *, is_last: bool) -> bool:
        """Append the next lines of each member. Return False without new lines."""
        new = []
        for member in self._members:
            start = self._offsets.get(member, 0)
            data = self._read(_Part(member, start, start + CHUNK))
            complete = data.rfind(b"\n") + 1
            if not is_last and (complete or len(data) < CHUNK):
                data = data[:complete]  # the member may still be writing the rest
            if data:
                added = "\n" if is_last and complete < len(data) else ""
                new.append((_Part(member, start, start + len(data), added), data + added.encode()))
        if not new:
            return False
        parts = [part for part, _ in new]
        journal = {"size": os.fstat(self._file).st_size, "offsets": self._offsets, "parts": parts}
        # The journal is written first. If this process is killed while it appends, the next process appends the rest.
        with storage_errors("write", self._path):
            write_below(self._directory, self._journal, json.dumps(journal).encode())
        for part, data in new:
            self._append(data)
            self._offsets[part.member] = part.end
        return True

    def _read(self, part: _Part) -> bytes:
        name = f"{RANKS}/{part.member}/{self._name}"
        try:
            if os.stat(os.path.join(self._directory, name)).st_size <= part.start:
                return b""
            descriptor = open_below(self._directory, name)
        except OSError:
            return b""  # the member has not written yet
        try:
            return os.pread(descriptor, part.end - part.start, part.start) + part.added.encode()
        finally:
            os.close(descriptor)

    def _append(self, data: bytes) -> None:
        with storage_errors("write", self._path):
            write_all(self._file, data)
