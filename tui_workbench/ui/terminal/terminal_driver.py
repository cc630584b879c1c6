"""A driver for slow connections and for terminals that disappear.

The event loop never waits for the terminal. A frame is written only after the previous frame, so a slow connection
gets fewer frames, but never outdated frames. If the terminal is gone, output is dropped and the process gets SIGHUP.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import termios
from collections.abc import Callable
from typing import IO, Any, cast

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from tui_workbench.ui.terminal.terminal_sequences import RESTORE_TITLE

MODES = "?2004 ?2048 ?1000 ?1002 ?1003 ?1006 ?1015 ?1004 ?1049"
"""Modes that the screens turn on: paste, sizes, mouse, window focus, alternate screen."""

RESTORING = "".join(
    ["\x1b[m\x1b[<u", *(f"\x1b[{mode}l" for mode in MODES.split()), "\x1b[?7h\x1b[?25h", RESTORE_TITLE]
).encode()


class TerminalDriver(LinuxDriver):
    """A driver that knows whether all output has been written."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._written = TerminalFile(cast("IO[str]", self._file), self._flushed)
        self._file = cast("Any", self._written)
        self._handed = 0
        self._when_written: Callable[[], None] | None = None
        self._drawing_loop: asyncio.AbstractEventLoop | None = None

    def write(self, data: str) -> None:
        self._handed += 1
        super().write(data)

    def is_free(self, otherwise: Callable[[], None]) -> bool:
        """Return True if all output has been written. If not, call `otherwise` in this loop after the last write."""
        # These are set before the comparison: the other thread counts first and then reads `_when_written`.
        self._drawing_loop, self._when_written = asyncio.get_running_loop(), otherwise
        if self._written.count < self._handed:
            return False
        self._when_written = None
        return True

    def _flushed(self) -> None:
        call, self._when_written = self._when_written, None
        if call is not None and self._drawing_loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just been closed
                self._drawing_loop.call_soon_threadsafe(call)

    def stop_application_mode(self) -> None:
        # Some terminals keep the colors after they leave the alternate screen.
        self.write("\x1b[m")
        super().stop_application_mode()

    def restore_now(self) -> None:
        """Restore the terminal without the event loop and without the writer thread."""
        self._written.is_gone = True  # stops other output
        with contextlib.suppress(OSError, termios.error):
            os.write(self._written.fileno(), RESTORING)
            if self.attrs_before is not None:
                termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)

    def _run_input_thread(self) -> None:
        try:
            self.run_input_thread()
        except OSError:
            hang_up()


class TerminalFile:
    """A file that drops writes when its terminal is gone. `count` is the number of flushed writes."""

    def __init__(self, file: IO[str], when_flushed: Callable[[], None]) -> None:
        self._file = file
        self._when_flushed = when_flushed
        self._begun = 0
        self.count = 0
        self.is_gone = False

    def write(self, text: str) -> None:
        self._begun += 1
        self._do(lambda: self._file.write(text))

    def flush(self) -> None:
        begun = self._begun
        self._do(self._file.flush)
        self.count = begun
        self._when_flushed()

    def _do(self, call: Callable[[], object]) -> None:
        if self.is_gone:
            return
        try:
            call()
        except (OSError, ValueError):
            self.is_gone = True
            hang_up()

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()


def hang_up() -> None:
    """Send SIGHUP to this process. The kernel sends it only to the foreground processes of a terminal."""
    os.kill(os.getpid(), signal.SIGHUP)
