"""Exchange lines and data with a running program on a host.

stderr is read while data is written, so that neither side blocks the other. An error is raised if the program ends
early or sends no data for SILENCE_SECONDS.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Sequence
from typing import NoReturn

from tui_workbench.core import system
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.numbers import whole_number
from tui_workbench.core.waiting import wait_ready
from tui_workbench.targets.hosts.host import MOST_OUTPUT, READ_SIZE, ConnectionLost, Host, disk_full, is_disk_full

SILENCE_SECONDS = 120.0
"""Time limit in seconds for the next data, long enough for a busy host with a slow disk."""

NEAR_SECONDS = 0.015
"""A host with a shorter response time, in seconds, is so near that compression costs more time than it saves."""

LONGEST_LINE = 1 << 20  # limit in bytes

SHOWN = 40
"""Maximum number of characters of an answer that an error quotes."""

_PIPE_SIZE = 1 << 20
"""Capacity of the pipes in bytes. With the default of 64 KiB, the writer waits too often."""


class ProcessIO:
    """A running program. Use it as a context manager, which ends the program.

    `action` is for errors: the words before the host's name, such as `copy files to`.
    """

    def __init__(self, host: Host, argv: Sequence[str], action: str) -> None:
        self._host = host
        self._argv = argv
        self._action = action
        self._buffer = b""
        self._errors = b""
        self.written = 0

    def __enter__(self) -> ProcessIO:
        self._begun = time.monotonic()
        self._process = self._host.open(self._argv)
        self._errors_open = True
        os.set_blocking(self._process.stdin, False)
        for descriptor in (self._process.stdin, self._process.stdout):
            system.enlarge_pipe(descriptor, _PIPE_SIZE)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.trace_streams(self._errors, self.written)
        self._process.close()

    def wait_for_start(self) -> bool:
        """Read the program's first line. Return True if the host answers so fast that compression saves no time."""
        self.line()
        return self._host.is_local or time.monotonic() - self._begun < NEAR_SECONDS

    @property
    def is_writable(self) -> bool:
        return bool(wait_ready([], [self._process.stdin], 0))

    def line(self) -> str:
        """Return the next line of the output, without the line ending."""
        while b"\n" not in self._buffer:
            self._refuse_size(len(self._buffer), LONGEST_LINE)
            self._fill()
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode("ascii", "replace").strip()

    def number(self, largest: int) -> int:
        """Return the number in the next line; see `number_in`."""
        return self.number_in(self.line(), largest)

    def number_in(self, line: str, largest: int) -> int:
        """Return the number in a line of the program. Raises WorkbenchError for other text and for a larger number."""
        number = whole_number(line, largest)
        if number is None:
            raise WorkbenchError(
                f"cannot {self._action} {self._host.label}: it answered {line[:SHOWN]!r}, expected a number",
                remedy="Check that the login shell of that machine prints nothing, and that its programs are not "
                "replaced, then try again.",
            )
        return number

    def gzip(self) -> bytes:
        """Return the next gzip stream of the output, decompressed."""
        unpacker = zlib.decompressobj(wbits=31)  # with a gzip header
        unpacked = bytearray()
        while not unpacker.eof:
            data = self.read()
            if not data:
                self.fail()
            while data and not unpacker.eof:
                # A small stream can become terabytes.
                unpacked += unpacker.decompress(data, READ_SIZE)
                self._refuse_size(len(unpacked), MOST_OUTPUT)
                data = unpacker.unconsumed_tail
        self._buffer = unpacker.unused_data
        return bytes(unpacked)

    def _refuse_size(self, size: int, largest: int) -> None:
        if size > largest:
            raise WorkbenchError(
                f"cannot {self._action} {self._host.label}: its answer is larger than {largest >> 20} MiB",
                remedy="Check the machine: a program of the workbench there does not write such an answer.",
            )

    def take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._fill()
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def _fill(self) -> None:
        data = self._receive()
        if not data:
            self.fail()
        self._buffer += data

    def read(self, size: int = READ_SIZE) -> bytes:
        """Return at most `size` bytes of the output, or `b""` at its end."""
        data = self._buffer or self._receive()
        self._buffer = data[size:]
        return data[:size]

    def _receive(self) -> bytes:
        # Endless output on stderr does not extend the time limit.
        deadline = time.monotonic() + SILENCE_SECONDS
        while True:
            left = max(0.0, deadline - time.monotonic())
            ready = wait_ready([self._process.stdout, *self._watched()], timeout=left)
            self._take_errors(ready)
            if self._process.stdout in ready:
                return os.read(self._process.stdout, READ_SIZE)
            if not ready or not left:
                self._silent()

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            ready = wait_ready(self._watched(), [self._process.stdin], SILENCE_SECONDS)
            if not ready:
                self._silent()
            self._take_errors(ready)
            if self._process.stdin in ready:
                try:
                    written = os.write(self._process.stdin, view)
                except BrokenPipeError:
                    self.fail()
                view = view[written:]
                self.written += written

    def close_input(self) -> None:
        """Signal the end of input to the program."""
        self._process.close_stdin()

    def finish(self) -> None:
        """Wait for the end of the program. Raises the error of `fail` if its exit code is not 0."""
        while self.read():
            pass
        self._process.trace_streams(self._errors, self.written)
        if self._exit_code() != 0:
            self.fail()

    def fail(self) -> NoReturn:
        """Raise the error of a program that ended early: ConnectionLost if it was killed, else WorkbenchError."""
        deadline = time.monotonic() + SILENCE_SECONDS
        while self._errors_open:
            left = max(0.0, deadline - time.monotonic())
            if not wait_ready(self._watched(), timeout=left) or not left:
                self._silent()
            self._take_errors({self._process.stderr})
        self._process.trace_streams(self._errors, self.written)
        code = self._exit_code()
        self._host.refuse_killed(self._argv[0], code)
        errors = self._errors.decode("utf-8", "replace").strip()
        complaint = errors.split("\n")[0] or f"exit code {code}"  # later lines are consequences of the first
        if is_disk_full(errors):
            raise disk_full(self._host.label, complaint)
        raise WorkbenchError(
            f"cannot {self._action} {self._host.label}: {complaint}",
            remedy="Check the disk and the permissions on that machine, then try again.",
        )

    def _exit_code(self) -> int:
        try:
            return self._process.wait(SILENCE_SECONDS)
        except TimeoutError:
            self._silent()

    def _watched(self) -> list[int]:
        return [self._process.stderr] if self._errors_open else []

    def _take_errors(self, ready: set[int]) -> None:
        if self._errors_open and self._process.stderr in ready:
            data = os.read(self._process.stderr, READ_SIZE)
            self._errors_open = bool(data)
            self._errors = (self._errors + data)[-READ_SIZE:]

    def _silent(self) -> NoReturn:
        raise ConnectionLost(
            f"{self._host.label}: no data for {SILENCE_SECONDS:g} s",
            remedy="Check the network, and the load and the disk of that machine, then try again.",
        )
