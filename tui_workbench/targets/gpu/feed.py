"""Read the GPU samples of a machine.

One process per machine and user takes the samples (`sampler.py`) for any number of readers: it appends lines to a file
in the user's state directory. The first reader starts the process, which ends after the last reader. Each reader
holds a shared lock while it reads, so a killed reader does not keep the sampler running.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time

from tui_workbench.core import locks
from tui_workbench.core.directories import user_state_directory
from tui_workbench.core.errors import StorageError, storage_error
from tui_workbench.core.files import replacing
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.processes import child_descriptor, start_detached
from tui_workbench.targets.gpu.gpus import machine_key
from tui_workbench.targets.gpu.sample import Machine, Note, Sample, decode
from tui_workbench.targets.hosts import contacts
from tui_workbench.targets.hosts.processes import RUN_ID_VARIABLE
from tui_workbench.targets.ssh.host_for import host_of

SAMPLES, SAMPLER_LOCK, LISTENERS, TARGET = "samples.jsonl", "sampler.lock", "listeners", "target.json"

# Seconds without a line after which a reader starts the sampler again if it is not running.
SILENT_SECONDS = 5.0
NO_SAMPLER = 4  # the sampler's exit code when the machine has no GPU


def folder_of(target: ComputeTarget) -> str:
    """Return the folder of the samples of the target's machine."""
    return os.path.join(user_state_directory(), "gpu", machine_key(target))


class Feed(contextlib.AbstractContextManager["Feed"]):
    """The samples of a target's machine. Calls block only while a file is read.

    `machine` is None until the first line. Raises NotContacted for a machine that the user has not contacted,
    StorageError when the folder cannot be used, and ConfigurationError for a target whose file holds a plain-text
    secret.
    """

    def __init__(self, target: ComputeTarget, history: int = 0) -> None:
        """`history` is the number of bytes of older samples to read first."""
        if target.kind.is_remote:
            # `_ensure_sampler` writes the target to a file, so a plain-text secret is refused here.
            host_of(target)
        if target.uses_ssh:
            contacts.require_contacted(target)
        self._target = target
        self._history = history
        self._folder = folder_of(target)
        self._file: io.FileIO | None = None
        self._listening = -1
        self._rest = b""
        self._heard = time.monotonic()
        self._has_started_sampler = False
        self.machine: Machine | None = None
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            self._listening = locks.open_lock(self._path(LISTENERS))
            # A sampler that is ending holds this lock for a moment.
            locks.lock(self._listening, shared=True)
            self._ensure_sampler()
        except OSError as error:
            self.close()
            raise self._storage_error(error) from error

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self) -> list[Machine | Sample | Note]:
        """Return the records written since the last call. Raises StorageError."""
        records = []
        for line in self._lines():
            record = decode(line)
            if isinstance(record, Machine):
                self.machine = record
            if record is not None:
                records.append(record)
        if records:
            self._heard = time.monotonic()
        has_ended = self.machine is not None and not self.machine.devices
        # The sampler of a machine without GPUs ends. An earlier one held its lock while it ended, so ask again once.
        is_due = not self._has_started_sampler if has_ended else self.silent_seconds > SILENT_SECONDS
        if is_due:
            self._heard = time.monotonic()
            try:
                self._ensure_sampler()
            except OSError as error:
                raise self._storage_error(error) from error
        return records

    @property
    def silent_seconds(self) -> float:
        return time.monotonic() - self._heard

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._listening >= 0:
            os.close(self._listening)
            self._listening = -1

    def _storage_error(self, error: OSError) -> StorageError:
        return StorageError(
            f"cannot monitor the GPUs: {error.strerror}",
            remedy="Free some space, or make the folder writable.",
            file=self._folder,
        )

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _ensure_sampler(self) -> None:
        lock = locks.open_lock(self._path(SAMPLER_LOCK))
        try:
            if not locks.try_lock(lock):
                return
            # Remove the file of a sampler that has ended.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(SAMPLES))
            with replacing(self._path(TARGET)) as file:
                file.write(json.dumps(self._target._replace(values={}, problem=None)._asdict()).encode())
            inherited = child_descriptor(lock)
            # -P: a json.py in the current folder must not shadow the standard library's.
            command = [sys.executable, "-P", "-m", "tui_workbench.targets.gpu.sampler", str(inherited), self._folder]
            # A sampler that a run's script starts does not belong to the run.
            environment = {name: value for name, value in os.environ.items() if name != RUN_ID_VARIABLE}
            # The sampler inherits the lock, so it is never free between the two processes.
            start_detached(command, environment, passed=((lock, inherited),))
            self._has_started_sampler = True
            # Read the new file from its start.
            self._history = sys.maxsize
        finally:
            os.close(lock)

    def _lines(self) -> list[bytes]:
        """Return the complete new lines, including the lines of a new file that the sampler has started."""
        data = self._file.read() if self._file is not None else b""
        if not data and self._is_replaced():
            self._open()
            data = self._file.read() if self._file is not None else b""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines

    def _is_replaced(self) -> bool:
        try:
            current = os.stat(self._path(SAMPLES))
        except OSError:
            return False
        return self._file is None or not os.path.samestat(current, os.fstat(self._file.fileno()))

    def _open(self) -> None:
        is_first = self._file is None
        if self._file is not None:
            self._file.close()
            self._file = None
        self._rest = b""
        try:
            self._file = io.FileIO(self._path(SAMPLES))
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_error("read", self._path(SAMPLES), error) from error
        if is_first:
            self._skip(self._file)

    def _skip(self, file: io.FileIO) -> None:
        """Skip to the last `history` bytes of a file, but keep its first line, which describes the machine."""
        first = file.readline()
        offset = max(len(first), os.fstat(file.fileno()).st_size - self._history)
        if offset > len(first):
            # Continue after the next line break.
            file.seek(offset - 1)
            offset += len(file.readline()) - 1
        file.seek(offset)
        self._rest = first
