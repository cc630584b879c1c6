"""The program with a bug that the key for help triggers: `python failing_program.py KIND PROJECT`."""

from __future__ import annotations

import sys
import threading
import time

from tui_workbench.__main__ import main
from tui_workbench.ui.main.main import MainScreen
from tui_workbench.ui.terminal.screen_diff import ScreenBuffer

MISTAKE = "a mistake \x1b]0;stolen title\x07"


def fail(*_: object) -> str:
    password = "".join(("hunter", "2"))
    raise RuntimeError(MISTAKE + password[:0])


def fail_in_thread(_: MainScreen) -> None:
    threading.Thread(target=fail).start()


def fail_in_rendering(screen: MainScreen) -> None:
    ScreenBuffer.take = fail  # type: ignore[assignment,method-assign]
    screen.refresh()


def hang(_: MainScreen) -> None:
    time.sleep(600)


def hang_in_thread(screen: MainScreen) -> None:
    screen.run_worker(lambda: time.sleep(600), thread=True)


KINDS = {
    "handler": fail,
    "thread": fail_in_thread,
    "rendering": fail_in_rendering,
    "hang": hang,
    "hanging thread": hang_in_thread,
}

if __name__ == "__main__":
    MainScreen.action_help = KINDS[sys.argv.pop(1)]  # type: ignore[assignment]
    main()
