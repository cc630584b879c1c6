"""Hand a run over to the process that drives it: its own controller, or the watcher of its target.

One watcher process drives the runs of a `SharedGroup`, on any targets and in all projects of the user. On targets with
`drives_together`, it drives all runs; on other targets, the runs whose scripts have started. A controller leaves its
run to the watcher. If no watcher is running, the controller becomes the watcher.

A folder in the user's state directory contains a link to each of these runs, and the lock of the watcher. A process
that hands over a run adds a link, and then wakes or starts the watcher. If a watcher was killed, the next process that
submits or resumes a run starts a new watcher, which takes all runs of the folder.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING

from tui_workbench import __version__
from tui_workbench.core import locks
from tui_workbench.core.directories import user_state_directory
from tui_workbench.core.errors import storage_errors
from tui_workbench.runs.lifecycle.starting import WATCHER, Start, become, detach, spawn, wake
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory

if TYPE_CHECKING:
    from tui_workbench.targets.base.group import SharedGroup
    from tui_workbench.targets.base.protocol import Target

FOLDER = "watchers"
RUNS = "runs"  # the folder of links
CHILD_SECONDS = 5.0  # time limit for a child of a killed watcher to start its program, which releases the lock
GATE = "gate"  # lock file that is locked while a run is handed over, and while the watcher decides whether to end


def hand_over(directory: RunDirectory, lock: ControllerLock, target: Target, start: Start = spawn) -> bool:
    """Hand a run over to a new controller, or to the watcher of its target, and release the lock.

    Return False if the watcher is running and the run was handed over to it before, so that it soon locks the run.
    Raises WorkbenchError if no process can be started.
    """
    group = target.shared_group(directory.path)
    if group is None or not (target.drives_together or "start" in directory.status().done):
        detach(directory, lock, start)
        return True
    with lock:
        folder = WatchFolder.of(group)
        with folder.locked():
            is_new = folder.add(directory)
            lock.release()  # so that the watcher can acquire it
            watcher = folder.wake_watcher()
            if watcher is not None:
                detach(folder.process, watcher, start, WATCHER, group.variables)
            return is_new or watcher is not None


def leave_to_watcher(directory: RunDirectory, lock: ControllerLock, group: SharedGroup) -> None:
    """Hand a started run over to the watcher of its group, and release the lock.

    If no watcher is running, this process becomes the watcher, and the call does not return. Raises StorageError.
    """
    folder = WatchFolder.of(group)
    with folder.locked():
        folder.add(directory)
        lock.release()
        watcher = folder.wake_watcher()
    if watcher is not None:
        become(folder.path, watcher, group.variables)


class WatchFolder:
    """The folder of a watcher, with a link to each of its runs, and its locks."""

    def __init__(self, path: str) -> None:
        self.path = path
        # The folder has a controller lock, so that a watcher is found and woken like a controller.
        self.process = RunDirectory(path)

    @classmethod
    def of(cls, group: SharedGroup) -> WatchFolder:
        """Return the folder for the runs of a group; create it if necessary. Raises StorageError."""
        # The files of another installation may be older than this process, or may be removed.
        name = f"{locks.file_name(group.key)[:100]}-{_digest(f'{group.key} {__version__} {sys.prefix}')}"
        path = os.path.join(user_state_directory(), FOLDER, name)
        with storage_errors("create", path):
            os.makedirs(os.path.join(path, RUNS), mode=0o700, exist_ok=True)
        return cls(path)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the folder within the context. Raises StorageError."""
        with locks.lock_file(os.path.join(self.path, GATE)):
            yield

    def wake_watcher(self) -> ControllerLock | None:
        """Wake the watcher. If no watcher is running, return the lock of the watcher.

        The caller holds the lock of the folder. Raises StorageError.
        """
        limit = time.monotonic() + CHILD_SECONDS
        while (lock := ControllerLock.acquire_new(self.process)) is None:
            if wake(self.process) or time.monotonic() > limit:
                return None
            time.sleep(locks.POLL_SECONDS)
        return lock

    def add(self, directory: RunDirectory) -> bool:
        """Add a run, and return True if it is new. The caller holds the lock of the folder. Raises StorageError."""
        link = self._link(directory)
        with storage_errors("write", link), contextlib.suppress(FileExistsError):
            os.symlink(directory.path, link)
            return True
        return False

    def remove(self, directory: RunDirectory) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._link(directory))

    def names(self) -> list[str]:
        """Return the names of all links. The list is empty if the folder was removed."""
        try:
            return os.listdir(os.path.join(self.path, RUNS))
        except OSError:
            return []

    def run(self, name: str) -> RunDirectory | None:
        """Return the run of a link, or None if the link was removed."""
        try:
            return RunDirectory(os.readlink(os.path.join(self.path, RUNS, name)))
        except OSError:
            return None

    def _link(self, directory: RunDirectory) -> str:
        # Runs of projects with the same name can have the same ID.
        return os.path.join(self.path, RUNS, f"{directory.run_id}.{_digest(directory.path)}")


def _digest(text: str) -> str:
    return blake2b(os.fsencode(text), digest_size=8).hexdigest()
