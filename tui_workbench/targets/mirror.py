"""A file of a host that grows, kept as a copy here: bytes from where the copy ends, as they are written there.

The copy's own size is all that is remembered, so whoever goes on, after whatever, goes on at the right byte: nothing is
lost and nothing comes twice. One at a time copies; others who come meanwhile leave it to that one.
"""

from __future__ import annotations

import fcntl
import os

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets.host import READ_SIZE, wait_ready

if TYPE_CHECKING:
    from tui_workbench.targets.host import Host, HostProcess


class Mirror:
    """Copies `source` on a host to the end of the file `destination` here while it is open."""

    def __init__(self, host: Host, source: str, destination: str) -> None:
        self._host = host
        self._source = source
        self._file = os.open(destination, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._process: HostProcess | None = None
        self._is_ours = take_turn(self._file, wait=False)
        self.size = os.fstat(self._file).st_size

    def __enter__(self) -> Mirror:
        return self

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
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]
        self.size += len(data)
        return bool(data)

    def drain(self) -> None:
        """Take all that the file holds now. Raises TargetUnreachable when the link breaks before."""
        if not self._is_ours:
            self._is_ours = take_turn(self._file, wait=True)
            self.size = os.fstat(self._file).st_size
        done = self._host.run(["wc", "-c", self._source])
        size = int(done.text.split()[0]) if done.code == 0 else 0
        if self.size >= size:
            return
        descriptor = self.open() if self._process is None else self._process.stdout
        while self.size < size:
            if not wait_ready([descriptor]) or not self.pump():
                self.end()

    def end(self) -> None:
        """Ask the process that brought the bytes why it ended. Raises TargetUnreachable."""
        from tui_workbench.targets.host import ConnectionLost

        process, self._process = self._process, None
        if process is not None:
            try:
                process.wait(1.0)
            except TimeoutError:
                pass
            finally:
                process.close()
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


def take_turn(descriptor: int, *, wait: bool) -> bool:
    """Be the one who writes to an open file, until it is closed; False when somebody else is (without `wait`)."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
