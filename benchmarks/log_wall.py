"""A script that prints a million lines: run by the workbench with its log open, against the same into a file.

    python -m benchmarks.log_wall

The workbench runs scripts unbuffered, so that every line is there when it is printed; so does the baseline. Ours is the
time from the run's start to its end, as its run directory tells them; the log is followed on the screen all the while.
"""

from __future__ import annotations

import os
import sys
import tempfile

from benchmarks import log_programs
from benchmarks.harness import compare, finish, process_time, python
from benchmarks.terminal import Terminal
from tui_workbench.runs.facade import Runs

ROUNDS = 7
LIMIT = 1.1
SCRIPT = "for number in range(1_000_000):\n    print(f'step {number} loss 0.1234 accuracy 0.9876')\n"


def main() -> int:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        project = os.path.join(folder, "project")
        runs = log_programs.write_project(project, SCRIPT)
        with Terminal(log_programs.workbench(project), emulate=False) as terminal:
            workbench = Workbench(terminal, runs)

            def into_a_file() -> float:
                with open(os.path.join(folder, "out"), "wb") as out:
                    return process_time([python(), "-u", "script.py"], directory=project, stdout=out.fileno())

            compare(
                "a script that prints 1,000,000 lines, with its log open",
                workbench.run,
                into_a_file,
                LIMIT,
                ROUNDS,
                baseline_name="python -u script > file",
            )
    return finish()


class Workbench:
    """The whole program in a terminal, with the project open and its last run's log in view."""

    def __init__(self, terminal: Terminal, runs: Runs) -> None:
        self._terminal = terminal
        self._runs = runs
        self._drawn = log_programs.Drawn(terminal)
        self._drawn.until(b"script.py", b"Python 3")
        terminal.settle(0.5)

    def run(self) -> float:
        """Presses the key and waits for the end of the run; the seconds that the script ran."""
        self._drawn.forget()
        self._terminal.send(log_programs.CTRL_R)
        self._drawn.until(b" 1,000,000 lines", b"completed", seconds=120)
        self._terminal.settle(0.5)
        run = self._runs.last()
        while run is not None and run.is_active:  # its metrics are still read
            self._terminal.settle(0.1)
            run = self._runs.last()
        assert run is not None
        assert run.duration
        os.unlink(run.log_path)
        return run.duration


if __name__ == "__main__":
    sys.exit(main())
