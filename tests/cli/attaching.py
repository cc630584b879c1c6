"""Commands of the tests of `computetarget`, with and without a terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import require
from tests.faults.support import Workbench
from tests.json_output import check_output
from tests.machines import Machine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

SECONDS = 120.0


def noun(words: Sequence[str]) -> Sequence[str]:
    """Return the words of a command; `computetarget` is added unless they begin with `experiment`."""
    return words if words[0] == "experiment" else ("computetarget", *words)


def workbench(*words: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command without a terminal."""
    if not stdin:
        code, out, err = Workbench(cwd).run(*noun(words))
        return subprocess.CompletedProcess(words, code, out, err)
    done = subprocess.run(
        [require("setsid"), sys.executable, "-m", "tui_workbench", *noun(words)],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    check_output(noun(words), done.stdout)
    return done


class Terminal:
    """A command in a new terminal."""

    def __init__(self, *words: str, cwd: Path) -> None:
        self._screen, terminal = os.openpty()
        self.shown = ""
        command = [require("setsid"), "--ctty", "--wait", sys.executable, "-m", "tui_workbench"]
        self._process = subprocess.Popen(
            [*command, *noun(words)], cwd=cwd, stdin=terminal, stdout=terminal, stderr=terminal, close_fds=True
        )
        os.close(terminal)

    def answer(self, question: str, answer: str) -> None:
        """Wait for the question and type the answer."""
        deadline = time.monotonic() + SECONDS
        while question not in self.shown:
            assert time.monotonic() < deadline, self.shown
            assert self._read(), self.shown
        self.shown = self.shown.partition(question)[2]
        os.write(self._screen, f"{answer}\n".encode())

    def end(self) -> tuple[int, str]:
        """Wait for the end. Return the exit code and the output after the last question."""
        while self._read():
            pass
        os.close(self._screen)
        return self._process.wait(SECONDS), self.shown.replace("\r\n", "\n")

    def _read(self) -> bool:
        try:
            data = os.read(self._screen, 1 << 16)
        except OSError:
            return False  # EIO: the command has closed the terminal
        self.shown += data.decode()
        return bool(data)


@pytest.fixture
def box(gpubox: Machine) -> list[str]:
    """Return the options of `attach` for the user `research` on gpubox."""
    return ["--name", "box", "--address", gpubox.address, "--username", "research"]


def result(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def files(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "aml_config").glob("box*"))
