"""Time from a key to the rows of the dashboard with 10,000 and 100,000 runs.

The workbench runs in a pseudo-terminal of 120 x 36. The time ends when the bytes of the named text arrive. The runs
are rows of the index, and the directories of the visible runs are links to one real run, whose curves are read. The
baseline is a project with ten runs.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from statistics import median

from benchmarks.harness import check, finish, note, python
from benchmarks.terminal import Terminal
from tui_workbench.core.model import Run
from tui_workbench.projects.project import Project
from tui_workbench.runs.store.history_record import Facts
from tui_workbench.runs.store.index import ENDED, RunIndex
from tui_workbench.runs.store.index_file import IndexRow, insert_rows

COLUMNS, ROWS = 120, 36
LIMITS = {10_000: 0.3, 100_000: 0.5}
KEY_LIMIT = 0.05
ROUNDS = 5
FILTER = "resnet"
ESCAPE = "\x1b"


def main() -> int:
    """Run the benchmark."""
    for total in (10, *LIMITS):
        with tempfile.TemporaryDirectory() as folder:
            project = make_project(os.path.join(folder, "project"), total)
            opened, keys = measured(project, folder, total)
        if total not in LIMITS:
            note(f"{total} runs: first rows {median(opened) * 1e3:.0f} ms, a filter key {median(keys) * 1e3:.0f} ms")
            continue
        check(f"dashboard of {total:,} runs, key to first rows, the first time", opened[0], LIMITS[total])
        check(f"dashboard of {total:,} runs, key to first rows, median", median(opened), LIMITS[total])
        check(f"dashboard of {total:,} runs, filter key to its rows, slowest of the word", max(keys), KEY_LIMIT)
        note(f"{total:,} runs: a filter key, median {median(keys) * 1e3:.0f} ms")
    return finish()


def measured(project: str, folder: str, total: int) -> tuple[list[float], list[float]]:
    """Seconds to the first rows, each round; seconds of each key of the filter, medians over the rounds."""
    with Terminal(
        [python(), "-m", "tui_workbench", project], columns=COLUMNS, rows=ROWS, directory=folder, emulate=False
    ) as terminal:
        seen = Seen(terminal)
        seen.until(b"5 Jobs")
        seen.until(f"[{total}]".encode())
        terminal.settle(1.0)
        opened = []
        keys: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            opened.append(seen.after("6", b"exit 1"))
            terminal.settle(1.0)
            seen.after("/", b"/")
            terminal.settle(0.3)
            for place in range(1, len(FILTER) + 1):
                word = FILTER[:place]
                keys.setdefault(word, []).append(seen.after(word[-1], f"with {word}".encode()))
                terminal.settle(0.5)
            terminal.send(ESCAPE)
            terminal.settle(0.5)
            terminal.send(ESCAPE)
            terminal.settle(0.5)
        return opened, [median(values) for values in keys.values()]


class Seen:
    """The rows that changed since the last key, with the time of the last change."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._data = b""
        self._when = 0.0
        terminal.watch_rows(self._take)

    def _take(self, data: bytes, when: float) -> None:
        self._data += data
        self._when = when

    def after(self, key: str, expected: bytes) -> float:
        """Seconds from the key to the bytes."""
        self._data = b""
        pressed = self._terminal.send(key)
        self.until(expected)
        return self._when - pressed

    def until(self, expected: bytes) -> None:
        """Read until the bytes arrive."""
        self._terminal.until(lambda: expected in self._data)


def make_project(root: str, total: int) -> str:
    """Create a project with an index of `count` runs."""
    os.makedirs(os.path.join(root, "aml_config"))
    project = Project.find(root)
    project.prepare_state()
    os.makedirs(project.runs_directory, exist_ok=True)
    real = os.path.join(root, ".workbench", "real")
    os.makedirs(real)
    with open(os.path.join(real, "metrics.jsonl"), "w", encoding="ascii") as file:
        for step in range(50):
            file.write(json.dumps({"name": "loss", "step": step, "value": 1 / (step + 1), "time": 1.0}) + "\n")
    fill(project, total)
    for number in range(1, total + 1):
        os.symlink(real, os.path.join(project.runs_directory, run_id(number)))
    old = time.time() - 3600
    os.utime(project.runs_directory, (old, old))
    return root


def fill(project: Project, total: int) -> None:
    """Write the runs into the index, as a workbench that has read them would have."""
    with RunIndex(project) as index:
        connection = index._connection
        connection.execute("BEGIN")
        insert_rows(connection, [row(project, number) for number in range(1, total + 1)])
        connection.execute("COMMIT")


def row(project: Project, number: int) -> IndexRow:
    """Return a row of the index."""
    script = ("train.py", "eval.py", "resnet/train.py", "sweep.py")[number % 4]
    created = 1_600_000_000.0 + number * 60
    run = Run(
        run_id=run_id(number),
        run_number=number,
        directory=os.path.join(project.runs_directory, run_id(number)),
        script_name=script,
        arguments=("--seed", str(number), "--lr", str(number % 7 / 100)),
        run_configuration="local",
        target="local",
        target_type="local",
        state="completed" if number % 9 else "failed",
        exit_code=0 if number % 9 else 1,
        created=created,
        start=created + 1,
        end=created + 1 + number % 977,
        user_id="ada",
    )
    facts = Facts({"loss": 1 / number, "accuracy": 1 - 1 / number, "epoch": number % 30})
    return IndexRow(run, ENDED, facts)


def run_id(number: int) -> str:
    """Return the ID of the run with this number."""
    return f"project_{number:013d}"


if __name__ == "__main__":
    sys.exit(main())
