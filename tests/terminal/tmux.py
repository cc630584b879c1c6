"""The real program in tmux, driven by keys and read as text."""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Self

from tests.conftest import require
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NUMBERS = itertools.count(1)

PATIENCE = 90.0
"""Maximum time to wait for a condition, in seconds."""


class Tmux:
    """A new tmux server with one window. The `with` block ends it with all its programs."""

    def __init__(self, command: list[str], *, size: tuple[int, int], name: str, environment: Mapping[str, str]) -> None:
        # A server that was told to end may still be ending: its name is not used again.
        self.base = [require("tmux"), "-L", f"workbench-{name}-{next(_NUMBERS)}", "-f", "/dev/null"]
        width, height = map(str, size)
        variables = [part for key, value in environment.items() for part in ("-e", f"{key}={value}")]
        # A shell starts the program, so that the text that it leaves in the terminal can be read.
        line = f"{shlex.join(command)}; echo left-with-$?; exec cat"
        self.call("new-session", "-d", "-x", width, "-y", height, *variables, "sh", "-c", line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run([*self.base, "kill-server"], capture_output=True, check=False)

    def call(self, *arguments: str) -> str:
        """Run a tmux command and return its output."""
        # A size in the environment would take precedence over that of the terminal.
        clean = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "TMUX", "NO_COLOR")}
        done = subprocess.run([*self.base, *arguments], env=clean, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"tmux {' '.join(arguments[:1])}: {done.stderr}"
        return done.stdout

    def press(self, *keys: str) -> None:
        """Press keys, in tmux's names: `Enter`, `C-r`, `Escape`, single characters."""
        for key in keys:
            self.call("send-keys", *(() if len(key) > 1 else ("-l",)), key)

    def resize(self, width: int, height: int) -> None:
        """Resize the window."""
        self.call("resize-window", "-x", str(width), "-y", str(height))

    def lines(self) -> list[str]:
        """Return the rows of the screen."""
        return self.call("capture-pane", "-p").split("\n")

    def text(self) -> str:
        """Return the text of the screen."""
        return "\n".join(self.lines())

    @property
    def pid(self) -> int:
        """The process ID of the shell in the window."""
        return int(self.call("display-message", "-p", "#{pane_pid}"))

    @property
    def title(self) -> str:
        """The title of the window."""
        return self.call("display-message", "-p", "#{pane_title}").strip()

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition holds, or fail with the screen."""
        try:
            wait_until(condition, seconds=PATIENCE)
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{self.text()}") from None

    def until_text(self, *texts: str) -> None:
        """Wait until the screen shows all texts."""
        self.until(lambda: all(text in self.text() for text in texts))


def workbench(*arguments: str) -> list[str]:
    """Return the command that starts the program with this interpreter."""
    return [sys.executable, "-m", "tui_workbench", *arguments]
