"""Measure a history of many runs: listing the runs, rebuilding the index, and the dashboard.

    python -m benchmarks.history

The list is compared with MLflow 3, which has the same runs in its file store and lists them with
`mlflow.search_runs` in a process. The benchmark installs MLflow, or uses the interpreter in WORKBENCH_MLFLOW. Without
MLflow, only this comparison is left out. A warm list is compared with `python -c pass`, and rebuilding the index with
parsing the files of all runs.

Deletion: moving 1,000 runs to the trash, with their sizes measured, is compared with `rm -r` of the same directories.

Dashboard: the times from a key to its rows with many runs are compared with those of ten runs. The runs exist only
in the index. Their directories are links to the directory of one run, whose curves are read. Every five runs form
a family.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.command_line import COMMAND, READING_LIMIT, make_project, multiply_runs
from benchmarks.harness import (
    REFERENCE_START,
    compare,
    environment,
    finish,
    note,
    process_time,
    processor_time,
    python,
    scratch_folder,
)
from benchmarks.terminal import Seen, Terminal
from tui_workbench.core.model import Run
from tui_workbench.projects.project import Project
from tui_workbench.runs.index import index_file
from tui_workbench.runs.index.history_record import Facts
from tui_workbench.runs.index.index import ENDED, RunIndex
from tui_workbench.runs.index.index_file import IndexRow, insert_rows
from tui_workbench.runs.store.ownership import DELETED_PREFIX
from tui_workbench.ui.dashboard.dashboard_data import GROUPS

RUNS = 300
METRICS = 5
SHARE_OF_PEER = 0.1
REBUILD_LIMIT = 16.0
PEER_VARIABLE = "WORKBENCH_MLFLOW"
PACKAGES = ("mlflow-skinny>=3", "pandas")
INSTALL_SECONDS = 120
ROUNDS, LIST_ROUNDS = 2, 5

COLUMNS, ROWS = 120, 36
MANY, FEW = 10_000, 10
OPEN_LIMIT, FILTER_LIMIT, FAMILIES_SECONDS = 3.0, 3.0, 0.1
OPEN_ROUNDS, FILTER_ROUNDS, FAMILIES_ROUNDS = 2, 1, 2
SEEDS = 5  # runs of a family
DELETED, DELETE_LIMIT, DELETE_ROUNDS = 1_000, 3.0, 2
START_SECONDS = READING_LIMIT * REFERENCE_START  # for the start of a command, which `rm` does not need
FILTER = "resnet"
ESCAPE = "\x1b"

_SEARCH = """\
import sys, mlflow
mlflow.set_tracking_uri(sys.argv[1])
found = mlflow.search_runs(search_all_experiments=True, max_results=100000, output_format="list")
print(len(found))
"""

_PARSE = """\
import json, pathlib, sys
for run in pathlib.Path(sys.argv[1]).iterdir():
    json.loads((run / "run.json").read_bytes())
    for name in ("events.jsonl", "metrics.jsonl"):
        for line in (run / name).read_bytes().splitlines():
            json.loads(line)
"""


def main() -> int:
    with scratch_folder() as name:
        peer = mlflow(Path(name))  # uses the cache of uv in the real HOME
        os.environ["HOME"] = name
        root = make_project(Path(name) / "project")
        multiply_runs(root, RUNS)
        log_metrics(root)
        measure_index(root)
        if peer:
            compare_lists(root, peer, Path(name) / "mlruns")
        measure_deletion(Path(name))
    measure_dashboard()
    return finish()


def log_metrics(root: Path) -> None:
    """Add metrics to each run."""
    for number, run in enumerate(sorted(Path(Project.find(str(root)).runs_directory).iterdir())):
        lines = (
            json.dumps({"name": f"metric{each}", "step": 1, "value": number % 97 / (each + 1), "time": 1.7e9})
            for each in range(METRICS)
        )
        (run / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))


def measure_index(root: Path) -> None:
    """Compare the processor time to build the index and list all runs with the time to parse their files."""
    project = Project.find(str(root))
    index = Path(project.cache_directory, index_file.FILE)

    def rebuilt() -> float:
        index.unlink(missing_ok=True)
        return processor_time([COMMAND, "history", "list"], directory=str(root))

    parse = [python(), "-c", _PARSE, project.runs_directory]
    name = f"index of {RUNS:,} runs, built and listed"
    compare(
        name,
        rebuilt,
        lambda: processor_time(parse),
        REBUILD_LIMIT,
        ROUNDS,
        baseline_name="parsing their files",
        warmup=0,
    )
    bare, warm = [python(), "-c", "pass"], [COMMAND, "history", "list"]
    compare(
        f"`history list` of {RUNS:,} runs, existing index",
        lambda: processor_time(warm, directory=str(root)),
        lambda: processor_time(bare),
        READING_LIMIT,
        LIST_ROUNDS,
        baseline_name="`python -c pass`",
    )


def mlflow(folder: Path) -> str:
    """Return an interpreter with MLflow 3; "" if it cannot be installed."""
    named = os.environ.get(PEER_VARIABLE, "")
    if named:
        return named
    peer = folder / "peer" / "bin" / "python"
    try:
        uv = str(Path(python()).parent / "uv")
        subprocess.run([uv, "venv", "--python", python(), str(folder / "peer")], check=True, capture_output=True)
        command = [uv, "pip", "install", "--python", str(peer), *PACKAGES]
        subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        reason = f"installing it failed ({type(error).__name__}), and `{PEER_VARIABLE}` is not set"
        note(f"MLflow: {reason}")
        return ""
    return str(peer)


def compare_lists(root: Path, peer: str, store: Path) -> None:
    """Compare processes that list every run."""
    export = [COMMAND, "history", "export", "--format", "mlflow", str(store)]
    subprocess.run(export, cwd=root, env=environment(), stdout=subprocess.DEVNULL, check=True)
    search = [peer, "-c", _SEARCH, f"file://{store}"]
    changes = environment({"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true"})

    def theirs() -> None:
        told = subprocess.run(search, env=changes, check=True, capture_output=True, text=True)
        assert int(told.stdout) == RUNS, told.stdout

    compare(
        f"`history list` of {RUNS:,} runs with {METRICS} metrics",
        lambda: process_time([COMMAND, "history", "list"], directory=str(root)),
        theirs,
        SHARE_OF_PEER,
        1,
        baseline_name="`mlflow.search_runs`, file store",
        warmup=0,
    )


def measure_deletion(folder: Path) -> None:
    """Compare moving runs to the trash with deleting their directories."""
    root, copy = make_project(folder / "deleted"), folder / "copy"
    multiply_runs(root, DELETED)
    runs = Path(Project.find(str(root)).runs_directory)
    before = runs.stat().st_mtime
    list_, delete = [COMMAND, "history", "list"], [COMMAND, "history", "delete", "--keep-last", "0", "--yes"]

    def moved() -> float:
        for run in runs.glob(f"{DELETED_PREFIX}*"):  # of the last round
            run.rename(runs / run.name.removeprefix(DELETED_PREFIX))
        os.utime(runs, (before, before))
        process_time(list_, directory=str(root))
        return process_time(delete, directory=str(root))

    def removed() -> float:
        shutil.copytree(runs, copy)
        return process_time(["rm", "-r", str(copy)])

    compare(
        f"`history delete` of {DELETED:,} runs, existing index",
        moved,
        removed,
        DELETE_LIMIT,
        DELETE_ROUNDS,
        baseline_name="`rm -r` of their directories",
        margin=START_SECONDS,
        warmup=0,
    )


def measure_dashboard() -> None:
    """Compare the dashboard of many runs with that of a few."""
    with dashboard(MANY) as many, dashboard(FEW) as few:
        compare(
            f"table of {MANY:,} runs, key press until its first rows are shown",
            many.open,
            few.open,
            OPEN_LIMIT,
            OPEN_ROUNDS,
            baseline_name=f"{FEW} runs",
        )
        compare(
            f"table of {MANY:,} runs, key press in the filter until its rows are shown, slowest key of `{FILTER}`",
            many.type_filter,
            few.type_filter,
            FILTER_LIMIT,
            FILTER_ROUNDS,
            baseline_name=f"{FEW} runs",
            warmup=0,
        )
        compare(
            f"table of {MANY:,} runs in {MANY // SEEDS:,} families, key press until its first rows are shown",
            many.group_by_family,
            few.group_by_family,
            1.0,
            FAMILIES_ROUNDS,
            baseline_name=f"{FEW // SEEDS} families",
            margin=FAMILIES_SECONDS,
        )


class Dashboard:
    """A driver of the dashboard in a terminal."""

    def __init__(self, terminal: Terminal, total: int) -> None:
        self._terminal = terminal
        self._seen = Seen(terminal)
        self._seen.until(b"5 Jobs", f"[{total}]".encode())
        terminal.settle(0.5)

    def open(self) -> float:
        """Return the seconds from the key to the first rows, and close the dashboard."""
        taken = self._seen.after("6", b"exit 1")
        self._terminal.settle()
        self._terminal.send(ESCAPE)
        self._terminal.settle()
        return taken

    def type_filter(self) -> float:
        """Return the longest time from a key of the filter to its rows."""
        self._seen.after("6", b"exit 1")
        self._terminal.settle()
        self._seen.after("/", b"/")
        words = [FILTER[:place] for place in range(1, len(FILTER) + 1)]
        taken = max(self._seen.after(word[-1], f"with {word}".encode()) for word in words)
        for _ in range(2):
            self._terminal.settle()
            self._terminal.send(ESCAPE)
        self._terminal.settle()
        return taken

    def group_by_family(self) -> float:
        """Return the seconds from the key that groups by family to the first families, and remove the groups."""
        self._seen.after("6", b"exit 1")
        self._terminal.settle()
        for group in GROUPS[1:-1]:
            self._seen.after("b", f"by {group}".encode())
        taken = self._seen.after("b", f"\u00d7{SEEDS}".encode())
        self._seen.after("b", b"exit 1")
        self._terminal.send(ESCAPE)
        self._terminal.settle()
        return taken


@contextlib.contextmanager
def dashboard(total: int) -> Iterator[Dashboard]:
    """Open the workbench on a project with this number of runs."""
    with scratch_folder() as folder:
        command = [python(), "-m", "tui_workbench", index_project(os.path.join(folder, "project"), total)]
        with Terminal(command, columns=COLUMNS, rows=ROWS, directory=folder, emulate=False) as terminal:
            yield Dashboard(terminal, total)


def index_project(root: str, total: int) -> str:
    """Create a project with an index of `total` runs."""
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
    """Write the runs into the index, as if the workbench had read them."""
    with RunIndex(project) as index:
        connection = index._connection
        connection.execute("BEGIN")
        insert_rows(connection, [row(project, number) for number in range(1, total + 1)])
        connection.execute("COMMIT")


def row(project: Project, number: int) -> IndexRow:
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
        group="sweep-1",
        family=f"sweep-1.{(number - 1) // SEEDS + 1}",
    )
    facts = Facts({"loss": 1 / number, "accuracy": 1 - 1 / number, "epoch": number % 30})
    return IndexRow(run, ENDED, facts)


def run_id(number: int) -> str:
    """Return the ID of the run with this number."""
    return f"project_{number:013d}"


if __name__ == "__main__":
    sys.exit(main())
