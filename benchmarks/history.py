"""The history of 10,000 runs: listing it, rebuilding its index, and filtering its table.

The baseline is MLflow 3 with the same runs in its file store, listed by `mlflow.search_runs` in a process. MLflow is
installed for this, or taken from the interpreter in WORKBENCH_MLFLOW; without MLflow the rest is measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.command_line import COMMAND, make_project, multiply_runs
from benchmarks.harness import MILLISECONDS, SECONDS, check, compare, environment, finish, note, process_time, python
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.store import index_file
from tui_workbench.runs.store.table import RunQuery

RUNS = 10_000
METRICS = 5
SHARE_OF_PEER = 0.1
REBUILD_SECONDS = 10.0
FIRST_ROWS, KEYSTROKE = 0.3, 0.05
PEER_VARIABLE = "WORKBENCH_MLFLOW"
PACKAGES = ("mlflow-skinny>=3", "pandas")
INSTALL_SECONDS = 120
ROUNDS = 3

_SEARCH = """\
import sys, mlflow
mlflow.set_tracking_uri(sys.argv[1])
found = mlflow.search_runs(search_all_experiments=True, max_results=100000, output_format="list")
print(len(found))
"""


def main() -> int:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory(prefix="workbench-benchmark-") as name:
        os.environ["HOME"] = name
        root = make_project(Path(name) / "project")
        multiply_runs(root, RUNS)
        log_metrics(root)
        measure_index(root)
        measure_table(root)
        peer = mlflow(Path(name))
        if peer:
            compare_lists(root, peer, Path(name) / "mlruns")
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
    """Build the index from nothing, as a whole process that then lists all runs."""
    index = Path(Project.find(str(root)).cache_directory, index_file.FILE)
    taken = []
    for _ in range(ROUNDS):
        index.unlink(missing_ok=True)
        taken.append(process_time([COMMAND, "history", "list"], directory=str(root)))
    check(
        f"index of {RUNS:,} runs, deleted, built anew and listed", sorted(taken)[ROUNDS // 2], REBUILD_SECONDS, SECONDS
    )
    note(f"the index takes {index.stat().st_size / 1e6:.1f} MB")


def measure_table(root: Path) -> None:
    """Measure the first rows of the table, and each key of a filter."""
    runs = Runs(Project.find(str(root)))
    check(f"first rows of {RUNS:,} runs", _median(lambda: runs.page(RunQuery(), 0, 60)), FIRST_ROWS, MILLISECONDS)
    text = "hello metric1>20 -failed"
    slowest = max(
        _median(lambda end=end: runs.page(RunQuery(text[:end], sort="metric0"), 0, 60))
        for end in range(1, len(text) + 1)
    )
    check(f"the slowest key of the filter `{text}`, sorted by a metric", slowest, KEYSTROKE, MILLISECONDS)
    found = runs.page(RunQuery(text), 0, 1).total
    note(f"the filter found {found:,} of {RUNS:,} runs")


def mlflow(folder: Path) -> str:
    """Return an interpreter with MLflow 3; "" if it cannot be installed."""
    named = os.environ.get(PEER_VARIABLE, "")
    if named:
        return named
    peer = folder / "peer" / "bin" / "python"
    try:
        subprocess.run([python(), "-m", "venv", str(folder / "peer")], check=True, capture_output=True)
        command = [str(peer), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
        subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        note(f"the peer is missing: MLflow could not be installed ({type(error).__name__}); name it by {PEER_VARIABLE}")
        return ""
    return str(peer)


def compare_lists(root: Path, peer: str, store: Path) -> None:
    """Measure whole processes that list every run."""
    export = [COMMAND, "history", "export", "--format", "mlflow", str(store)]
    subprocess.run(export, cwd=root, env=environment(), stdout=subprocess.DEVNULL, check=True)
    search = [peer, "-c", _SEARCH, f"file://{store}"]
    changes = environment({"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true"})
    told = subprocess.run(search, env=changes, check=True, capture_output=True, text=True)
    assert int(told.stdout) == RUNS, told.stdout

    def theirs() -> None:
        subprocess.run(search, env=changes, check=True, capture_output=True)

    compare(
        f"history list of {RUNS:,} runs with {METRICS} metrics",
        lambda: process_time([COMMAND, "history", "list"], directory=str(root)),
        theirs,
        SHARE_OF_PEER,
        ROUNDS,
        baseline_name="mlflow.search_runs, file store",
        warmup=0,
    )


def _median(call: object, rounds: int = 5) -> float:
    assert callable(call)
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return sorted(taken)[rounds // 2]


if __name__ == "__main__":
    sys.exit(main())
