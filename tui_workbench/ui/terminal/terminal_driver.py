"""Textual's driver for terminals on Linux, for lines that are slow and terminals that go away.

The invariants: the loop that draws never waits for the terminal (a frame is handed over when what was handed over
before has been written, so a slow line gets fewer frames and never old ones); a terminal that is gone is a hangup, and
what would have been written to it is dropped.
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
"""What the screens turn on: pasting, sizes, the mouse, the focus of the window, the alternate screen."""

RESTORING = "".join(
    ["\x1b[m\x1b[<u", *(f"\x1b[{mode}l" for mode in MODES.split()), "\x1b[?7h\x1b[?25h", RESTORE_TITLE]
).encode()


class TerminalDriver(LinuxDriver):
    """Knows whether all was written, and tells when it is."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._written = TerminalFile(cast("IO[str]", self._file), self._tell)
        self._file = cast("Any", self._written)
        self._handed = 0
        self._when_written: Callable[[], None] | None = None
        self._drawing_loop: asyncio.AbstractEventLoop | None = None

    def write(self, data: str) -> None:
        """Hand something over to be written."""
        self._handed += 1
        super().write(data)

    def is_free(self, otherwise: Callable[[], None]) -> bool:
        """Whether all that was handed over is written; if not, `otherwise` is called in this loop once it is."""
        # Said before it is looked at: the other thread writes first and looks then, so one of both sees the other.
        self._drawing_loop, self._when_written = asyncio.get_running_loop(), otherwise
        if self._written.count < self._handed:
            return False
        self._when_written = None
        return True

    def _tell(self) -> None:
        """In the thread that writes: all is written."""
        call, self._when_written = self._when_written, None
        if call is not None and self._drawing_loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just been closed
                self._drawing_loop.call_soon_threadsafe(call)

    def stop_application_mode(self) -> None:
        """Leave the terminal as it was; not every terminal forgets the colours with the screen."""
        self.write("\x1b[m")
        super().stop_application_mode()

    def restore_now(self) -> None:
        """Do what leaving does for the terminal, without the thread that writes and without the event loop."""
        self._written.is_gone = True  # nothing else is written from now on
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
    """The file that is written to; `count` writes were carried out, and flushed. Survives the terminal."""

    def __init__(self, file: IO[str], when_flushed: Callable[[], None]) -> None:
        self._file = file
        self._when_flushed = when_flushed
        self._begun = 0
        self.count = 0
        self.is_gone = False

    def write(self, text: str) -> None:
        """Write, unless the terminal is gone."""
        self._begun += 1
        self._do(lambda: self._file.write(text))

    def flush(self) -> None:
        """Let the terminal have it."""
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
        """The descriptor of the terminal."""
        return self._file.fileno()

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._file.isatty()


def hang_up() -> None:
    """What the system tells the program when its terminal goes; it does not tell those who are in the background."""
    os.kill(os.getpid(), signal.SIGHUP)
