"""Time to open the chart of a run with 1,000,000 points, and of 20 runs with 50,000 points each.

The workbench runs in a pseudo-terminal of 120 x 36. The time ends when the ticks of the chart's axis arrive, which no
other part of the screen shows. The baseline is a run with 100 points.
"""

from __future__ import annotations

import os
import sys
import tempfile
from statistics import median

from benchmarks.dashboard import COLUMNS, ESCAPE, ROWS, Seen
from benchmarks.harness import check, finish, note, python
from benchmarks.terminal import Terminal
from tests.ui.runs.past import past_run
from tui_workbench.projects.project import Project
from tui_workbench.runs.metrics.recording import MetricsRecorder
from tui_workbench.runs.store.rundir import RunDirectory

POINTS, RUNS, EACH, FEW = 1_000_000, 20, 50_000, 100
LIMIT = 0.5
ROUNDS = 5


def main() -> int:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        root = make_project(os.path.join(folder, "project"))
        with Terminal(
            [python(), "-m", "tui_workbench", root], columns=COLUMNS, rows=ROWS, directory=folder, emulate=False
        ) as terminal:
            seen = Seen(terminal)
            seen.until(b"5 Jobs")
            terminal.settle(1.0)
            seen.after("6", b"many.py")
            terminal.settle(1.0)
            large, small, overlay = [], [], []
            for _ in range(ROUNDS):
                large.append(opened(terminal, seen, b"600,000"))
                terminal.send("j")
                small.append(opened(terminal, seen, b" 60 "))
                terminal.send("k")
            terminal.send("jj" + " " * RUNS)
            terminal.settle(0.5)
            for _ in range(ROUNDS):
                overlay.append(seen.after("c", b"40,000"))
                terminal.settle(0.5)
                terminal.send(ESCAPE)
                terminal.settle(0.5)
    note(f"a run of {FEW} points: {median(small) * 1e3:.0f} ms from its key to its chart")
    check(f"chart of {POINTS:,} points, key to chart", median(large), LIMIT)
    check(f"{RUNS} curves of {EACH:,} points in one chart, key to chart", median(overlay), LIMIT)
    return finish()


def opened(terminal: Terminal, seen: Seen, expected: bytes) -> float:
    """Return the seconds from the key on a run to its chart."""
    terminal.settle(0.3)
    taken = seen.after("\r", expected)
    terminal.settle(0.3)
    terminal.send(ESCAPE)
    terminal.settle(0.5)
    return taken


def make_project(root: str) -> str:
    """Create a project with twenty runs of many points, a small run, and the newest with a million points."""
    os.makedirs(os.path.join(root, "aml_config"))
    project = Project.find(root)
    project.prepare_state()
    sizes = [EACH] * RUNS + [FEW, POINTS]
    for number, points in enumerate(sizes, 1):
        values = [1 / (1 + step / points) for step in range(points)]
        run_id = past_run(project, number, script="many.py", curves={"loss": values})
        recorder = MetricsRecorder(RunDirectory(os.path.join(project.runs_directory, run_id)))
        recorder.read()
        recorder.store()
    return root


if __name__ == "__main__":
    sys.exit(main())
