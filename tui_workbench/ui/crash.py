"""How the screens end when the program fails: the terminal as it was, and one line that names a report on disk.

The invariants: a report and the line hold no control characters and no passwords, and a report is readable by its user
alone; an exception in any thread ends the screens as one in the event loop does; SIGQUIT ends them even when the event
loop hangs.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from types import FrameType

from tui_workbench import __version__
from tui_workbench.core import directories
from tui_workbench.core.masking import mask_text
from tui_workbench.ui.terminal.safetext import safe_text

PATIENCE = 2.0
"""Seconds that the event loop gets to end the screens after SIGQUIT."""

QUIT_CODE = 128 + signal.SIGQUIT


def report_error(error: BaseException) -> str:
    """Write a report about an exception, without local variables; gives its path, "" when it cannot be written."""
    return _write("".join(traceback.format_exception(error)))


def report_threads() -> str:
    """Write a report of what every thread does now; gives its path, "" when it cannot be written."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return _write(file.read())


def closing_line(report: str) -> str:
    """The line in the terminal after the screens."""
    where = f" Report: {safe_text(report)}" if report else ""
    return f"workbench-tui stopped unexpectedly. Runs go on; unsaved edits are kept.{where}"


def _write(text: str) -> str:
    folder = os.path.join(directories.user_state_directory(), "crashes")
    path = os.path.join(folder, f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(f"workbench-tui {__version__}, Python {sys.version.split()[0]}\n\n")
            file.write(safe_text(mask_text(text), multiline=True))
    except OSError:
        return ""
    return path


@contextlib.contextmanager
def thread_errors_to(handle: Callable[[BaseException], None]) -> Iterator[None]:
    """While this lasts, hand exceptions that end a thread to `handle`, which is called in that thread."""
    usual = threading.excepthook

    def hook(arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None and not isinstance(arguments.exc_value, SystemExit):
            handle(arguments.exc_value)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = usual


@contextlib.contextmanager
def quit_signal_to(leave: Callable[[str], None], restore_terminal: Callable[[], None]) -> Iterator[None]:
    """While this lasts, SIGQUIT writes a report of all threads and calls `leave` with its path, in a thread.

    When the process still runs after `PATIENCE`, the terminal is restored and the process ends at once.
    """

    def on_quit(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # a second one is not argued with
        report = report_threads()
        forced = threading.Timer(PATIENCE, _end_at_once, (report, restore_terminal))
        forced.daemon = True
        forced.start()
        # Not here: who is called between two instructions of the event loop's thread does not wake the loop.
        threading.Thread(target=leave, args=(report,), daemon=True).start()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGQUIT, on_quit)
    try:
        yield
    finally:
        signal.signal(signal.SIGQUIT, before)


def _end_at_once(report: str, restore_terminal: Callable[[], None]) -> None:
    restore_terminal()
    with contextlib.suppress(OSError):
        os.write(2, f"{closing_line(report)}\n".encode(errors="replace"))
    os._exit(QUIT_CODE)
