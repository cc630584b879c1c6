"""A script that prints a million lines: run by the workbench with its log open, against the same into a file.

    python -m benchmarks.log_wall

The workbench runs scripts unbuffered, so that every line is there when it is printed; so does the baseline. Ours is the
time from the run's start to its end, as its run directory tells them; the log is followed on the screen all the while.
"""

from __future__ import annotations

import os
import sys
import tempfile

from benchmarks.harness import compare, finish, process_time, python
from benchmarks.terminal import Terminal
from tui_workbench.project import Project
from tui_workbench.runs import Runs

ROUNDS = 7
LIMIT = 1.1
CTRL_R = "\x12"

FILES = {
    "aml_config/local.compute": f'type: "local"\npythonLocation: "{python()}"\n',
    "aml_config/local.runconfig": (
        'Target: "local"\nArgumentVector:\n  - "lines.py"\nFramework: "Python"\nTrackedRun: false\n'
    ),
    "lines.py": "for number in range(1_000_000):\n    print(f'step {number} loss 0.1234 accuracy 0.9876')\n",
}


def main() -> int:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        project = os.path.join(folder, "project")
        write_project(project)
        with Terminal([python(), "-m", "tui_workbench", project], directory=folder, emulate=False) as terminal:
            workbench = Workbench(terminal, Runs(Project.find(project)))

            def into_a_file() -> float:
                with open(os.path.join(folder, "out"), "wb") as out:
                    return process_time([python(), "-u", "lines.py"], directory=project, stdout=out.fileno())

            compare(
                "a script that prints 1,000,000 lines, with its log open",
                workbench.run,
                into_a_file,
                LIMIT,
                ROUNDS,
                baseline_name="python -u script > file",
            )
    return finish()


def write_project(root: str) -> None:
    """A project with the script, and a run configuration that runs it in place."""
    os.makedirs(os.path.join(root, "aml_config"))
    for name, text in FILES.items():
        with open(os.path.join(root, name), "w", encoding="utf-8") as file:
            file.write(text)


class Workbench:
    """The whole program in a terminal, with the project open and its last run's log in view."""

    def __init__(self, terminal: Terminal, runs: Runs) -> None:
        self._terminal = terminal
        self._runs = runs
        self._drawn = bytearray()
        terminal.watch = lambda data, _: self._drawn.extend(data)
        terminal.until(lambda: b"lines.py" in self._drawn and b"ready" in self._drawn)
        terminal.settle(0.5)

    def run(self) -> float:
        """Presses the key and waits for the end of the run; the seconds that the script ran."""
        self._drawn.clear()
        self._terminal.send(CTRL_R)
        self._terminal.until(lambda: b"following, 1,000,000 lines" in self._drawn, 120)
        self._terminal.until(lambda: b"completed" in self._drawn, 120)
        self._terminal.settle(0.5)
        run = self._runs.last()
        assert run is not None
        os.unlink(run.log_path)
        return run.duration


if __name__ == "__main__":
    sys.exit(main())
