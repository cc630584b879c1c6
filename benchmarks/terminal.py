"""Run a program in a pseudo-terminal, and record its output and the time of each byte.

Benchmarks and tests use this module. Times are `time.perf_counter()` values of the moment when bytes are read.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import pyte

from benchmarks.harness import environment

_TOKEN = re.compile(
    rb"\x1b\[([0-9;?<>=$]*)([A-Za-z~])"  # a control sequence
    rb"|\x1b[\]P_][^\x07\x1b]*(?:\x07|\x1b\\)"  # a string sequence, such as a window title
    rb"|\x1b[^\[\]P_]"  # a short escape sequence
    rb"|[\r\n]"
    rb"|[^\x1b\r\n]+"
)
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-9;?<>=$]*|[\]P_][^\x07\x1b]*\x1b?)?\Z|[\xc0-\xff][\x80-\xbf]{0,2}\Z")


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


class Rows:
    """The rows of a terminal as text, in a fraction of the time of a full emulation.

    A program that writes only changes does not repeat text that is already visible, so waiting for a text needs rows
    instead of bytes. The output of the workbench and Textual is supported: moves, erasing and text. Colors are ignored,
    and every character counts as one cell.
    """

    def __init__(self, columns: int, rows: int) -> None:
        self._width = columns
        self.rows = [" " * columns] * rows
        self._x = self._y = 0
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Process output and return the complete text of the changed rows."""
        data = self._rest + data
        cut = len(data)
        if (unfinished := _UNFINISHED.search(data)) and not _is_whole(unfinished[0]):
            cut = unfinished.start()
        self._rest = data[cut:]
        touched: set[int] = set()
        for token in _TOKEN.finditer(data, 0, cut):
            if token[2] is not None:
                self._control(token[1], token[2], touched)
            elif token[0] == b"\r":
                self._x = 0
            elif token[0] == b"\n":
                self._x, self._y = 0, min(self._y + 1, len(self.rows) - 1)
            elif not token[0].startswith(b"\x1b"):
                self._write(token[0].decode("utf-8", "replace"), touched)
        return "\n".join(self.rows[row] for row in sorted(touched)).encode()

    def _write(self, text: str, touched: set[int]) -> None:
        row = self.rows[self._y]
        self.rows[self._y] = (row[: self._x] + text + row[self._x + len(text) :])[: self._width]
        self._x = min(self._x + len(text), self._width)
        touched.add(self._y)

    def _control(self, parameters: bytes, final: bytes, touched: set[int]) -> None:
        if final not in b"HCXKJ" or (parameters[:1] in b"?<>=" and parameters):
            return
        numbers = [int(number or b"0") for number in parameters.split(b";")]
        if final == b"H":
            self._y = min(max(numbers[0], 1), len(self.rows)) - 1
            self._x = min(max(numbers[1] if len(numbers) > 1 else 1, 1), self._width) - 1
        elif final == b"C":
            self._x = min(self._x + max(numbers[0], 1), self._width)
        elif final == b"J":
            self.rows = [" " * self._width] * len(self.rows)
        else:
            length = max(numbers[0], 1) if final == b"X" else self._width - self._x
            kept = self._x
            self._write(" " * length, touched)
            self._x = kept


def _is_whole(end: bytes) -> bool:
    """Return True if the data does not end within a character or an escape sequence."""
    try:
        end.decode()
    except UnicodeDecodeError:
        return False
    return not end.startswith(b"\x1b")


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
