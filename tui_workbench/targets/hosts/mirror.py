"""What a run on another machine writes, brought here while it goes on: its log, metrics, and the output of its ranks.

The log is followed: bytes from where the copy ends, as they are written there. The copy's own size is all that is
remembered, so whoever goes on, after whatever, goes on at the right byte: nothing is lost and nothing comes twice. One
at a time copies; others who come meanwhile leave it to that one.

For the rest, one short command every few seconds asks how long the files are, and a second one, if they have grown,
brings what is new: no connection more is held for that. `metrics.jsonl` and the files of `ranks/` grow here as they do
there, from the byte where they end here. Event files lie in `live/` until the run has ended and all of its files come
home.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence

from tui_workbench.core import locks
from tui_workbench.core.errors import StorageError
from tui_workbench.core.files import make_folders, open_below, remove_below, write_all
from tui_workbench.core.waiting import Interrupted, wait_ready
from tui_workbench.targets.hosts.host import READ_SIZE, ConnectionLost, Host, HostProcess
from tui_workbench.targets.hosts.supervisor import METRICS, RANKS

SILENCE_SECONDS = 20.0
"""A file that is there and at rest comes at once; when nothing comes for this long, something is broken."""


class Mirror(contextlib.AbstractContextManager["Mirror"]):
    """Copies `source` on a host to the end of the file `name` in the folder `directory` here while it is open."""

    def __init__(self, host: Host, source: str, directory: str, name: str) -> None:
        self._host = host
        self._source = source
        self._file = open_below(directory, name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._process: HostProcess | None = None
        self._is_ours = locks.try_lock(self._file)
        self.size = os.fstat(self._file).st_size

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> int:
        """Begin to follow. Returns the descriptor that is readable when there is something for `pump`.

        -1 when somebody else copies already. Raises TargetUnreachable.
        """
        if not self._is_ours:
            return -1
        self._process = self._host.read(self._source, self.size)
        return self._process.stdout

    def pump(self) -> bool:
        """Take what has arrived; waits when nothing has. False at the end, which only a lost link brings."""
        if self._process is None:
            raise ValueError("it is not open")
        data = os.read(self._process.stdout, READ_SIZE)
        try:
            write_all(self._file, data)
        except OSError as error:
            raise StorageError(
                f"cannot write the log: {error.strerror}", remedy="It is read on when that is possible."
            ) from error
        finally:
            self.size = os.fstat(self._file).st_size
        return bool(data)

    def drain(self) -> None:
        """Take all that the file holds now. Raises TargetUnreachable when the link breaks before."""
        if not self._is_ours:
            locks.lock(self._file)
            self._is_ours = True
            self.size = os.fstat(self._file).st_size
        size = self._size_there()
        if self.size >= size:
            return
        descriptor = self.open() if self._process is None else self._process.stdout
        while self.size < size:
            if not wait_ready([descriptor], timeout=SILENCE_SECONDS):
                size = min(size, self._size_there())
                if self.size < size:
                    raise ConnectionLost(
                        f"{self._host.label}: nothing more of the log came for {SILENCE_SECONDS:g} s",
                        remedy="It is read on from the same byte.",
                    )
            elif not self.pump():
                self.end()

    def _size_there(self) -> int:
        text = self._host.run(["sh", "-c", '[ -f "$1" ] && wc -c <"$1"', "sh", self._source]).text.strip()
        return int(text) if text.isdecimal() else 0

    def end(self) -> None:
        """Ask the process that brought the bytes why it ended. Raises TargetUnreachable."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.closing(process), contextlib.suppress(TimeoutError):
                process.wait(1.0)
        raise ConnectionLost(
            f"the connection to {self._host.label} broke while the log was read",
            remedy="It is read on from the same byte when the machine answers.",
        )

    def close(self) -> None:
        """Stop following; what was copied stays."""
        if self._process is not None:
            self._process.close()
            self._process = None
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


LIVE = "live"

SHORTEST, LONGEST, GROWTH = 2.0, 30.0, 1.5
"""Seconds between two looks; longer each time when there was nothing new."""

MOST_BYTES = 8 << 20
"""Of one command's answer; what is more is asked for at once."""

SHARES = 8
"""No file has more than this part of an answer: a rank that floods its log keeps nothing else from coming."""

# $1 the run's directory. Sizes with names; `placed` is as old as the run's copy.
_SIZES = """\
cd -- "$1" 2>/dev/null || exit 0
[ -f metrics.jsonl ] && [ ! -L metrics.jsonl ] && wc -c metrics.jsonl
[ -d ranks ] && find ranks -type f -name '*.log' -exec wc -c {} \\;
[ -e placed ] && find work outputs -type f -newer placed -name '*tfevents*' -exec wc -c {} \\; 2>/dev/null
exit 0
"""

# $1 the run's directory; then path, first byte (from 1) and count of each part.
_PARTS = """\
cd -- "$1" || exit
shift
while [ $# -gt 2 ]; do
    [ -L "$1" ] || tail -c "+$2" -- "$1" | head -c "$3"
    shift 3
done
"""


class LiveFiles:
    """Brings what is new of one run from its directory `there` on a host to its directory `here`."""

    def __init__(self, host: Host, there: str, here: str) -> None:
        self._host = host
        self._there = there
        self._here = here
        self._pause = SHORTEST
        self._due = time.monotonic() + SHORTEST

    @property
    def timeout(self) -> float:
        """Seconds until the next look."""
        return max(0.0, self._due - time.monotonic())

    def look(self) -> None:
        """Take what is new, when it is time for that. Raises TargetUnreachable."""
        if self.timeout:
            return
        wanted = self._wanted()
        something = self._take(wanted)
        # Not all at once: the caller has the log to take, and somebody may want the run to end.
        is_behind = something and sum(count for _, _, count in wanted) >= MOST_BYTES // SHARES
        self._pause = SHORTEST if something else min(self._pause * GROWTH, LONGEST)
        self._due = time.monotonic() + (0.0 if is_behind else self._pause)

    def hasten(self) -> None:
        """Something was written there: look soon."""
        self._pause = SHORTEST
        self._due = min(self._due, time.monotonic() + SHORTEST)

    def take(self) -> bool:
        """Take all that is there now; True when something was new. Raises TargetUnreachable."""
        something = False
        while self._take(self._wanted()):
            something = True
        return something

    def _take(self, wanted: Sequence[tuple[str, int, int]]) -> bool:
        """Take these parts of files; False when there is nothing to take, or one of the files is not what it was."""
        if not wanted:
            return False
        arguments = [text for path, start, count in wanted for text in (path, str(start + 1), str(count))]
        done = self._host.run(["sh", "-c", _PARTS, "sh", self._there, *arguments])
        if done.code or len(done.stdout) != sum(count for _, _, count in wanted):
            return False  # a file went, or became shorter, meanwhile
        position = 0
        for path, start, count in wanted:
            self._append(path, start, done.stdout[position : position + count])
            position += count
        return True

    def finish(self) -> None:
        """Take the rest of what grows; event files are here in their places by now. Raises TargetUnreachable."""
        self.take()
        remove_below(self._here, LIVE)

    def _wanted(self) -> list[tuple[str, int, int]]:
        """Path, first byte and count of what is there and not here."""
        lines = self._host.run(["sh", "-c", _SIZES, "sh", self._there]).stdout.decode("utf-8", "surrogateescape")
        wanted, room = [], MOST_BYTES
        for line in lines.split("\n"):
            size, _, path = line.strip().partition(" ")
            place = self._place(path)
            if not place or not size.isdigit():
                continue
            try:
                known = os.lstat(place).st_size
            except OSError:
                known = 0
            count = min(int(size) - known, room, max(1, MOST_BYTES // SHARES))
            if count > 0:
                wanted.append((path, known, count))
                room -= count
        return wanted

    def _place(self, path: str) -> str:
        """Where a file of the run belongs here; nothing for one that would lie elsewhere."""
        parts = path.split("/")
        if path == METRICS or (len(parts) == 2 and parts[0] == RANKS and ".." not in parts):
            return os.path.join(self._here, path)
        return os.path.join(self._here, LIVE, path) if ".." not in parts and parts[0] in ("work", "outputs") else ""

    def _append(self, path: str, start: int, data: bytes) -> None:
        """Append what begins at a byte, unless somebody else has done so meanwhile."""
        name = os.path.relpath(self._place(path), self._here)
        make_folders(self._here, os.path.dirname(name))
        with locks.held(open_below(self._here, name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)) as descriptor:
            if os.fstat(descriptor).st_size == start:
                write_all(descriptor, data)


def follow(
    ended: int, finish: Callable[[], None], mirror: Mirror, interrupted: int, live: LiveFiles | None = None
) -> None:
    """Wait until the descriptor `ended` becomes readable, with the log's bytes taken as they come.

    Calls `finish` then, which raises what kept the run from being waited for, and takes the rest of the log. The files
    of `live` are brought every few seconds.

    Raises Interrupted, or TargetUnreachable when the link breaks; then follow again, the mirror knows where it was.
    """
    log = mirror.open()
    watched = [descriptor for descriptor in (ended, log, interrupted) if descriptor >= 0]
    while True:
        ready = wait_ready(watched, timeout=None if live is None else live.timeout)
        if live is not None:
            live.look()
        if log in ready:
            if not mirror.pump():
                mirror.end()
            if live is not None:
                live.hasten()
        if ended in ready:
            finish()
            mirror.drain()
            return
        if interrupted in ready:
            raise Interrupted
