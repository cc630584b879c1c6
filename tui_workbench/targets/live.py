"""What a run on another machine writes beside its log, brought here while it goes on: metrics, and its ranks' output.

One short command every few seconds asks how long they are, and a second one, if they have grown, brings the rest: no
connection more is held for that. `metrics.jsonl` and the files of `ranks/` grow here as they do there, from the byte
where they end here. Event files lie in `live/` until the run has ended and all of its files come home.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets.torchrun import RANKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui_workbench.targets.host import Host

METRICS = "metrics.jsonl"
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
[ -f metrics.jsonl ] && wc -c metrics.jsonl
[ -d ranks ] && find ranks -type f -name '*.log' -exec wc -c {} \\;
[ -e placed ] && find work outputs -type f -newer placed -name '*tfevents*' -exec wc -c {} \\; 2>/dev/null
exit 0
"""

# $1 the run's directory; then path, first byte (from 1) and count of each part.
_PARTS = """\
cd -- "$1" || exit
shift
while [ $# -gt 2 ]; do
    tail -c "+$2" -- "$1" | head -c "$3"
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
        shutil.rmtree(os.path.join(self._here, LIVE), ignore_errors=True)

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
                known = os.stat(place).st_size
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
        place = self._place(path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_size == start:
                view = memoryview(data)
                while view:
                    view = view[os.write(descriptor, view) :]
        finally:
            os.close(descriptor)
