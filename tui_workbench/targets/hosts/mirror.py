"""Copy the log, the metrics and the output of ranks from another machine while a run continues.

The log is followed from the byte where the copy ends. The size of the copy is the only state, so any process can
continue at any time, and no byte is lost or repeated. Only one process copies at a time.

The sizes of the other files are read every few seconds, and new bytes are fetched by a second command. The copies of
`metrics.jsonl` and of the files in `ranks/`, `gpu/` and `spark/` have the same paths in the run's local directory.
TensorBoard's event files are copied to `live/`, which is removed after the files of the ended run are fetched.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Sequence

from tui_workbench.core import locks
from tui_workbench.core.errors import StorageError
from tui_workbench.core.files import open_below, remove_below, write_all
from tui_workbench.core.numbers import whole_number
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.core.waiting import Interrupted, wait_ready
from tui_workbench.targets.hosts.copying import MOST_BYTES, SHARES, append_at, copied_size, fetch_parts
from tui_workbench.targets.hosts.host import READ_SIZE, ConnectionLost, Host, HostProcess
from tui_workbench.targets.hosts.supervisor import GPU, METRICS, RANKS, SPARK, SPARK_BYTES

SILENCE_SECONDS = 20.0
"""Time limit in seconds for more bytes while the copy is shorter than the file."""

_WAIT = "Wait: when the machine answers, the log resumes where it stopped."


class Mirror(contextlib.AbstractContextManager["Mirror"]):
    """Appends the bytes of `source` on a host to the file `name` in the local folder `directory`."""

    def __init__(self, host: Host, source: str, directory: str, name: str) -> None:
        self._host = host
        self._source = source
        self._file = open_below(directory, name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._process: HostProcess | None = None
        self._is_locked = locks.try_lock(self._file)
        self.size = os.fstat(self._file).st_size

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> int:
        """Start following, and return the descriptor that is readable when `pump` has bytes to copy.

        Returns -1 if another process is already copying. Raises TargetUnreachable.
        """
        if not self._is_locked:
            return -1
        self._process = self._host.read(self._source, self.size)
        return self._process.stdout

    def pump(self) -> bool:
        """Wait for bytes, and copy them. Return False if the connection is lost. Raises StorageError."""
        if self._process is None:
            raise ValueError("the mirror is not open")
        data = os.read(self._process.stdout, READ_SIZE)
        try:
            write_all(self._file, data)
        except OSError as error:
            raise StorageError(
                f"cannot write the log: {error.strerror}",
                remedy="Free disk space or correct the permissions of the run's directory. The log then continues.",
            ) from error
        finally:
            self.size = os.fstat(self._file).st_size  # after an error too: a part may have been written
        return bool(data)

    def drain(self) -> None:
        """Copy the file up to its current size on the host, after any other process that copies it has ended.

        Raises StorageError, or TargetUnreachable if the connection is lost meanwhile.
        """
        if not self._is_locked:
            locks.lock(self._file)
            self._is_locked = True
            self.size = os.fstat(self._file).st_size
        size = self._remote_size()
        if self.size >= size:
            return
        descriptor = self.open() if self._process is None else self._process.stdout
        while self.size < size:
            if not wait_ready([descriptor], timeout=SILENCE_SECONDS):
                size = min(size, self._remote_size())  # the file may have been truncated
                if self.size < size:
                    raise ConnectionLost(
                        f"{self._host.label}: no output arrived for {SILENCE_SECONDS:g} s",
                        remedy=_WAIT,
                    )
            elif not self.pump():
                self.end()

    def _remote_size(self) -> int:
        """Return the size of the file in bytes; 0 if it does not exist. Raises TargetUnreachable."""
        command = ["sh", "-c", 'if [ -f "$1" ]; then wc -c <"$1"; else echo 0; fi', "sh", self._source]
        text = self._host.run(command).text.strip()
        size = whole_number(text)
        if size is None:
            # The program was killed, for example because the machine shuts down. The file may have more bytes.
            raise ConnectionLost(
                f"{self._host.label}: the size of the log could not be read",
                remedy=_WAIT,
            )
        return size

    def end(self) -> None:
        """Raise TargetUnreachable because the process on the host ended, with the reason if it is known."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.closing(process), contextlib.suppress(TimeoutError):
                process.wait(1.0)
        raise ConnectionLost(
            f"the connection to {self._host.label} was lost while the log was being read",
            remedy=_WAIT,
        )

    def close(self) -> None:
        """Stop following. The copy is kept."""
        if self._process is not None:
            self._process.close()
            self._process = None
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


LIVE = "live"

IN_PROGRESS = ".inprogress"
"""Suffix of the event log of a running Spark application (Spark's EventLogFileWriter)."""

SHORTEST, LONGEST, GROWTH = 2.0, 30.0, 1.5
"""Shortest and longest time between two polls in seconds, and the factor after a poll without new bytes."""

GPU_SECONDS = 10.0
"""Longest time between two polls of a run with GPU samples, which are taken every second."""

LEAST_BYTES = 64 << 10
"""Maximum number of bytes per run if one command fetches the files of very many runs."""

_LIST_FILES = shell_script("targets/hosts/scripts/list_live_files.sh")


class LiveFiles:
    """Fetches the new bytes of files from a run's directory `there` on a host to its local directory `here`.

    For a member of a group, `here` is already a folder in `ranks/`, and the files of its ranks are directly in it.
    """

    def __init__(self, host: Host, there: str, here: str, *, is_member: bool = False) -> None:
        self._is_member = is_member
        self._host = host
        self._there = there
        self._here = here
        self._pause = SHORTEST
        self._due = time.monotonic() + SHORTEST

    @property
    def timeout(self) -> float:
        """Seconds until the next poll."""
        return max(0.0, self._due - time.monotonic())

    def poll(self) -> None:
        """Fetch new bytes, if a poll is due. Raises TargetUnreachable or StorageError."""
        if not self.timeout:
            parts = self._list_missing()
            self._schedule(parts, is_fetched=self._fetch(parts))

    @staticmethod
    def poll_together(host: Host, runs: Sequence[LiveFiles]) -> list[StorageError | None]:
        """Fetch new bytes of the files of runs whose directories on the host are in the same folder.

        Two requests serve any number of runs. Returns an error of this machine, or None, for each run. Raises
        TargetUnreachable.
        """
        room = max(LEAST_BYTES, MOST_BYTES // len(runs))
        listings = _list_sizes(host, [run._there for run in runs])
        missing = [run._missing(sizes, room) for run, sizes in zip(runs, listings, strict=True)]
        parts = [
            (f"{os.path.basename(run._there)}/{path}", start, count)
            for run, run_parts in zip(runs, missing, strict=True)
            for path, start, count in run_parts
        ]
        contents = fetch_parts(host, os.path.dirname(runs[0]._there), parts) if parts else []
        rest = iter(contents or ())
        errors: list[StorageError | None] = []
        for run, run_parts in zip(runs, missing, strict=True):
            run_contents = [next(rest) for _ in run_parts] if contents is not None else None
            try:
                # If a file was removed or truncated, fetch the files of each run separately.
                is_fetched = run._fetch(run_parts) if run_contents is None else run._append(run_parts, run_contents)
                run._schedule(run_parts, is_fetched=is_fetched, room=room)
                errors.append(None)
            except StorageError as error:
                errors.append(error)
                run._schedule([], is_fetched=False)
        return errors

    def _schedule(self, parts: Sequence[tuple[str, int, int]], *, is_fetched: bool, room: int = MOST_BYTES) -> None:
        has_samples = any(path.startswith(f"{GPU}/") for path, _, _ in parts)
        is_new = is_fetched and not all(path.startswith(f"{GPU}/") for path, _, _ in parts)
        # Execute one command at a time, because the caller must also copy the log and react to a cancel.
        is_behind = is_fetched and sum(count for _, _, count in parts) >= min(room, MOST_BYTES // SHARES)
        self._pause = SHORTEST if is_new else min(self._pause * GROWTH, GPU_SECONDS if has_samples else LONGEST)
        self._due = time.monotonic() + (0.0 if is_behind else self._pause)

    def poll_soon(self) -> None:
        """Make the next poll earlier, because the run has written to its log."""
        self._pause = SHORTEST
        self._due = min(self._due, time.monotonic() + SHORTEST)

    def fetch_all(self) -> bool:
        """Fetch all new bytes; return True if there were any. Raises TargetUnreachable or StorageError."""
        is_new = False
        while self._fetch(self._list_missing()):
            is_new = True
        return is_new

    def _fetch(self, parts: Sequence[tuple[str, int, int]]) -> bool:
        """Fetch parts of files; return False if there are none, or if a file was removed or truncated."""
        contents = fetch_parts(self._host, self._there, parts) if parts else None
        return contents is not None and self._append(parts, contents)

    def _append(self, parts: Sequence[tuple[str, int, int]], contents: Sequence[bytes]) -> bool:
        """Append the fetched parts to the copies; return True if there are any. Raises StorageError."""
        for (path, start, _), data in zip(parts, contents, strict=True):
            append_at(self._here, os.path.relpath(self.local_path(path), self._here), start, data)
        return bool(parts)

    def finish(self) -> None:
        """Fetch the rest, and remove `live/`, because collecting the run copies its files to `work/` and `outputs/`.

        Raises TargetUnreachable or StorageError.
        """
        self.fetch_all()
        remove_below(self._here, LIVE)

    def _list_missing(self) -> list[tuple[str, int, int]]:
        """Return the path, first byte and size of each missing part. Raises TargetUnreachable."""
        return self._missing(_list_sizes(self._host, [self._there])[0])

    def _missing(self, sizes: str, room: int = MOST_BYTES) -> list[tuple[str, int, int]]:
        parts = []
        for line in sizes.split("\n"):
            digits, _, path = line.strip().partition(" ")
            local_path, size = self.local_path(path), whole_number(digits)
            if not local_path or size is None:
                continue
            copied = copied_size(local_path)
            most = SPARK_BYTES if path.startswith(f"{SPARK}/") else size
            count = min(min(size, most) - copied, room, max(1, MOST_BYTES // SHARES))
            if count > 0:
                parts.append((path, copied, count))
                room -= count
        return parts

    def local_path(self, path: str) -> str:
        """Return the local path of a file of the run; "" for a path that is not allowed."""
        parts = path.split("/")
        if self._is_member and parts[0] == RANKS:
            return os.path.join(self._here, parts[1]) if len(parts) == 2 and parts[1] != ".." else ""
        deepest = 3 if parts[0] == RANKS else 2  # on several nodes, each has a folder in `ranks/`
        if path == METRICS or (1 < len(parts) <= deepest and parts[0] in (GPU, RANKS, SPARK) and ".." not in parts):
            # Spark removes the suffix when the application ends.
            return os.path.join(self._here, path.removesuffix(IN_PROGRESS) if parts[0] == SPARK else path)
        return os.path.join(self._here, LIVE, path) if ".." not in parts and parts[0] in ("work", "outputs") else ""


def _list_sizes(host: Host, folders: Sequence[str]) -> list[str]:
    """Return the lines of _LIST_FILES for each folder. Raises TargetUnreachable."""
    separator = secrets.token_hex(8)  # a script can choose the names of its files, but does not know the separator
    output = host.run(["sh", "-c", _LIST_FILES, "sh", separator, *folders]).stdout.decode("utf-8", "surrogateescape")
    sizes = output.split(f"{separator}\n")[1:]
    if len(sizes) != len(folders):
        raise ConnectionLost(f"{host.label}: the list of the files of runs was incomplete", remedy="Try again.")
    return sizes


def follow(
    ended: int, finish: Callable[[], None], mirror: Mirror, interrupted: int, live: LiveFiles | None = None
) -> None:
    """Copy the log and the files of `live` until the descriptor `ended` becomes readable.

    Then call `finish`, which may raise an error, and copy the rest of the log. Raises Interrupted, StorageError, or
    TargetUnreachable if the connection is lost. Another call continues where this one stopped.
    """
    log = mirror.open()
    watched = [descriptor for descriptor in (ended, log, interrupted) if descriptor >= 0]
    while True:
        ready = wait_ready(watched, timeout=None if live is None else live.timeout)
        if live is not None:
            live.poll()
        if log in ready:
            if not mirror.pump():
                mirror.end()
            if live is not None:
                live.poll_soon()
        if ended in ready:
            finish()
            mirror.drain()
            return
        if interrupted in ready:
            raise Interrupted
