"""Run a program in a pseudo-terminal, and record its output and the time of each byte.

Benchmarks and tests use this module. Times are `time.perf_counter()` values of the moment when bytes are read.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import pyte

from benchmarks.harness import environment
from benchmarks.rows import Rows


class Terminal:
    """A program in a pseudo-terminal of a given size. The context manager kills the program at the end.

    `screen` is the visible text, emulated by pyte. With `emulate=False` nothing is emulated, which saves time; only the
    functions of `watch` and `watch_rows` get the output.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 120,
        rows: int = 36,
        changes: Mapping[str, str] | None = None,
        directory: str | None = None,
        emulate: bool = True,
    ) -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self._emulate = emulate
        self.received = 0
        self.watch: Callable[[bytes, float], None] | None = None
        self._rows: Rows | None = None
        self._watch_rows: Callable[[bytes, float], None] | None = None
        self._size = columns, rows
        self.started = time.perf_counter()
        self.pid, self._fd = _spawn(command, columns, rows, changes or {}, directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def watch_rows(self, watch: Callable[[bytes, float], None]) -> None:
        """Call `watch` with the complete text of changed rows, and the time."""
        self._rows, self._watch_rows = Rows(*self._size), watch

    def send(self, keys: str | bytes) -> float:
        """Type keys and return the time when they were written."""
        now = time.perf_counter()
        os.write(self._fd, keys.encode() if isinstance(keys, str) else keys)
        return now

    def resize(self, columns: int, rows: int) -> None:
        """Resize the terminal."""
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)
        os.kill(self.pid, signal.SIGWINCH)

    def pump(self, seconds: float = 0.01) -> bool:
        """Read the output that arrives within `seconds`. Return False if the program has closed the terminal."""
        if not select.select([self._fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError:
            return False
        now = time.perf_counter()
        self.received += len(data)
        if self.watch is not None:
            self.watch(data, now)
        if self._rows is not None and self._watch_rows is not None:
            self._watch_rows(self._rows.feed(data), now)
        if self._emulate:
            self._stream.feed(data)
        return bool(data)

    def until(self, condition: Callable[[], bool], seconds: float = 20.0) -> float:
        """Read until the condition holds, and return the time.

        Raises TimeoutError, with the text of the screen, after `seconds` or when the program has ended.
        """
        deadline = time.perf_counter() + seconds
        while not condition():
            if time.perf_counter() > deadline or not self.pump(0.02):
                if condition():
                    break
                raise TimeoutError(f"the expected output did not appear; the screen shows:\n{self.text()}")
        return time.perf_counter()

    def until_text(self, text: str, seconds: float = 20.0) -> float:
        """Read until the screen shows the text, and return the time."""
        return self.until(lambda: text in self.text(), seconds)

    def settle(self, quiet: float = 0.1, seconds: float = 20.0) -> None:
        """Read until no byte has arrived for `quiet` seconds."""
        deadline = time.perf_counter() + seconds
        seen, since = self.received, time.perf_counter()
        while time.perf_counter() - since < quiet and time.perf_counter() < deadline and self.pump(0.01):
            if self.received != seen:
                seen, since = self.received, time.perf_counter()

    def text(self) -> str:
        """Return the screen, one line per row, without trailing spaces."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def hang_up(self) -> int:
        """Close the terminal, like a user who closes its window. Wait for the program and return its wait status."""
        os.close(self._fd)
        os.kill(self.pid, signal.SIGCONT)
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return status

    def close(self) -> int:
        """Kill the program with SIGKILL and return its wait status. May be called twice."""
        if self.pid == 0:
            return 0
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self._fd)
        self.pid = 0
        return status


class Seen:
    """The rows that a program has changed since the last key, and the time of the last change.

    No terminal is emulated during the measurement.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._data = bytearray()
        self._when = 0.0
        terminal.watch_rows(self._take)

    def _take(self, data: bytes, when: float) -> None:
        self._data += data
        self._when = when

    def forget(self) -> None:
        """Ignore earlier output."""
        self._data.clear()

    def until(self, *expected: bytes, seconds: float = 30.0) -> float:
        """Read until all texts were drawn since the last key or `forget`, and return the time."""
        self._terminal.until(lambda: all(text in self._data for text in expected), seconds)
        return self._when

    def after(self, keys: str, expected: bytes) -> float:
        """Type keys after the output has settled, and return the seconds until the text was drawn."""
        self._terminal.settle()
        self.forget()
        pressed = self._terminal.send(keys)
        return self.until(expected) - pressed


def _spawn(
    command: Sequence[str], columns: int, rows: int, changes: Mapping[str, str], directory: str | None
) -> tuple[int, int]:
    variables = environment({"TERM": "xterm-256color", "COLORTERM": "truecolor", **changes})
    for name in ("LINES", "COLUMNS", "NO_COLOR"):
        variables.pop(name, None)
    # The size must be set before the program reads it, so the child waits for a byte.
    ready, go = os.pipe()
    pid, fd = pty.fork()
    if pid == 0:
        os.read(ready, 1)
        try:
            if directory is not None:
                os.chdir(directory)
            os.execvpe(command[0], list(command), variables)
        finally:
            os._exit(127)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.write(go, b"x")
    os.close(go)
    os.close(ready)
    return pid, fd
