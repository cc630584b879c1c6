"""Duration of a script that prints a million lines with its log open, compared with output to a file.

    python -m benchmarks.log_wall

The workbench runs scripts unbuffered, and so does the baseline. The duration is the one in the run directory; the log
is followed on the screen meanwhile.
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
    """Run the benchmark."""
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
    """The workbench in a terminal, with the log of the last run."""

    def __init__(self, terminal: Terminal, runs: Runs) -> None:
        self._terminal = terminal
        self._runs = runs
        self._drawn = log_programs.Drawn(terminal)
        self._drawn.until(b"script.py", b"Python 3")
        terminal.settle(0.5)

    def run(self) -> float:
        """Start a run and wait for its end; return the seconds that the script ran."""
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
