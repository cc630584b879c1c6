"""Crash handling: restore the terminal, write a report and print one line with the path of the report.

The invariants: the report and the line contain no control characters and no passwords, and only the user can read the
report; an exception in any thread ends the screens, as it does in the event loop; SIGQUIT ends them even when the
event loop hangs.
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
from tui_workbench.core.files import open_new
from tui_workbench.core.masking import mask_text
from tui_workbench.ui.terminal.safetext import safe_text

PATIENCE = 2.0  # seconds that the event loop has to end the screens after SIGQUIT
QUIT_CODE = 128 + signal.SIGQUIT


def report_error(error: BaseException) -> str:
    """Write a report with the traceback, without local variables; return its path, or "" if it cannot be written."""
    return _write("".join(traceback.format_exception(error)))


def report_threads() -> str:
    """Write a report with the stacks of all threads; return its path, or "" if it cannot be written."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return _write(file.read())


def closing_line(report: str) -> str:
    """Return the line that the terminal shows after a crash."""
    where = f" Report: {safe_text(report)}" if report else ""
    return f"workbench-tui stopped unexpectedly. Runs continue; unsaved edits are kept.{where}"


def _write(text: str) -> str:
    folder = os.path.join(directories.user_state_directory(), "crashes")
    path = os.path.join(folder, f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        head = f"workbench-tui {__version__}, Python {sys.version.split()[0]}\n\n"
        with open_new(path) as file:
            file.write(f"{head}{safe_text(mask_text(text), multiline=True)}".encode("utf-8", "replace"))
    except OSError:
        return ""
    return path


@contextlib.contextmanager
def thread_errors_to(handle: Callable[[BaseException], None]) -> Iterator[None]:
    """Pass exceptions that end a thread, except SystemExit, to `handle`, which is called in that thread."""
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
    """On SIGQUIT, write a report of all threads, and call `leave` in a new thread with the path of the report.

    If the process still runs after `PATIENCE` seconds, restore the terminal and end the process immediately.
    Outside the main thread, SIGQUIT is not handled.
    """

    def on_quit(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # a second SIGQUIT ends the process
        report = report_threads()
        forced = threading.Timer(PATIENCE, _end_at_once, (report, restore_terminal))
        forced.daemon = True
        forced.start()
        # `leave` is called in a thread, because a call from a signal handler does not wake the event loop.
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
