"""A project with a run that has every kind of file, and the commands and screens that read it, in this process."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.conftest import write_project
from tests.faults.mutating import remove
from tests.faults.support import Workbench
from tui_workbench import cli
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import ClusterJob, Run
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.gpu.verdict import DeviceFigures, Evidence, Verdict, to_json
from tui_workbench.runs.store.cluster_job import write_job
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.runs.store.table import RunQuery
from tui_workbench.targets.gpu.sample import Device, Machine, Process, Reading, Sample, encode
from tui_workbench.ui.charts.chart_data import read_attempts, read_metrics, run_curves
from tui_workbench.ui.dashboard.dashboard_data import read_overview, read_page
from tui_workbench.ui.details import run_details_read as details
from tui_workbench.ui.details.run_details import head_lines
from tui_workbench.ui.details.run_details_panels import verdict_lines
from tui_workbench.ui.runs.compare import read_comparison, read_difference, rows_of

SECONDS = 20
"""Time limit of a command; those of this project need milliseconds."""

SCRIPT = """\
import os, sys
import workbench
attempt = int(os.environ.get("WORKBENCH_ATTEMPT", "1"))
for step in range(3):
    workbench.log("loss", 1.0 / (step + attempt))
workbench.log_list("ones", [1, 2, 3])
workbench.log_table("table", {"a": [1, 2], "b": ["x", "y"]})
workbench.log_row("row", x=1, y="z")
workbench.log_confusion_matrix("confusion", [[1, 2], [3, 4]], ["a", "b"])
workbench.tag("kind", "mutated")
os.makedirs("outputs", exist_ok=True)
open("outputs/model.txt", "w").write("weights")
open("outputs/log.csv", "w").write("step,accuracy\\n1,0.5\\n2,0.6\\n")
open("outputs/book.ipynb", "w").write('{"cells": [{"cell_type": "code", "source": ["a"], "outputs": [], "metadata": {},'
                                      '"execution_count": 1}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
print("epoch 1 val_loss 0.5")
sys.exit(1 if attempt == 1 else 0)
"""


class Answer(NamedTuple):
    """The result of a reading: the exit code, the text, and a traceback or ""."""

    what: str
    code: int
    text: str
    traceback: str = ""


class MutatedRun:
    """The project `root`, its run `run_id` that is mutated, and another run that stays as it is."""

    def __init__(self, root: Path) -> None:
        self.home = os.environ["HOME"]
        self.root = write_project(root / "project", tracked=True)
        workbench = Workbench(self.root)
        configuration = self.root / "aml_config" / "local.runconfig"
        workbench.write("print('healthy')\n", "healthy.py")
        assert workbench.submit("healthy.py").code == 0
        self.healthy = workbench.history()[0]["run_id"]
        configuration.write_text(
            configuration.read_text().replace("EnvironmentVariables: {}", "EnvironmentVariables: {A: '1'}")
            + "Retry:\n  times: 1\n  delay: 0\n"
        )
        workbench.write(SCRIPT)
        result = workbench.submit("train.py", "--lr", "0.1", "--name=x")
        assert result.code == 0, result
        self.run_id = workbench.history()[0]["run_id"]
        self.path = workbench.run_directory(self.run_id)
        assert workbench.run("history", "tag", "-r", self.run_id, "good", "a=b").code == 0
        self._add_files()
        self.pristine = root / "pristine"
        shutil.copytree(self.path, self.pristine, symlinks=True)
        self.files = sorted(
            str(path.relative_to(self.path))
            for path in self.path.rglob("*")
            if path.is_file() and not path.is_symlink() and path.relative_to(self.path).parts[0] != "work"
            and path.name not in ("controller.lock", "annotations.lock")
        )  # fmt: skip
        self.exports = root / "exports"

    def _add_files(self) -> None:
        """Add the files of GPUs, clusters, notifications and stacks, which this machine does not make."""
        figures = DeviceFigures(
            0, "H100", "GPU-1", 5.0, 900.0, 50.0, 90.0, 50.0, 2.5, 0.1, 0.0, ("eve",), 0.0, 0, 9.0, (0,)
        )
        evidence = Evidence("gpu", "torch", ("cuda:0",), 3)
        verdict = Verdict("proven", "used", "", (figures,), (evidence,), ("gap",), 3, final=True, advice=("do",))
        for folder in (self.path, self.path / "attempts" / "1"):
            (folder / "gpu.json").write_text(json.dumps(to_json(verdict), indent=1))
        device = Device(0, "GPU-1", "H100", 80_000.0)
        samples = [
            Sample(time.time() + n, (Reading(0, 50.0, 900.0),), (Process(7, 0, 900.0, user="own"),)) for n in range(3)
        ]
        (self.path / "gpu.jsonl").write_bytes(b"".join([encode(Machine((device,))), *map(encode, samples)]))
        write_job(str(self.path), ClusterJob("17", 2, time.time(), "node1", time.time() + 60, 0.0))
        frame = {"function": "f", "file": "/a.py", "shown": "a.py", "line": 3}
        thread = {"name": "Main", "is_main": True, "is_active": True, "has_gil": False, "frames": [frame]}
        process = {
            "role": "script",
            "rank": -1,
            "node": "",
            "pid": 7,
            "parent": 1,
            "command": ["python"],
            "problem": "",
            "threads": [thread],
        }
        stacks = {
            "run_id": self.run_id,
            "time_utc": "2026-01-01T00:00:00+00:00",
            "seconds": 0.5,
            "process_count": 1,
            "processes": [process],
        }
        gpu = {"name": "H100", "driver": "550", "memory": "80 GB"}
        provenance = {
            "git": {"commit": "1" * 40, "branch": "main", "remote": "x", "changed": ["a"]},
            "packages": {"six": "1"},
            "python": {"version": "3.12"},
            "host": {"memory": 1 << 30, "cpu": "x"},
            "gpus": [gpu],
            "image": {"id": "1"},
            "data": {"data": {"path": "/data", "files": 3, "size": 5}},
            "seeds": {"PYTHONHASHSEED": "1"},
            "problems": ["a"],
        }
        (self.path / "provenance.json").write_text(json.dumps(provenance))
        (self.path / "git.diff").write_text("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")
        (self.path / "stacks").mkdir()
        (self.path / "stacks" / "20260101T000000-000.json").write_text(json.dumps(stacks))
        (self.path / "notifications").mkdir()
        (self.path / "notifications" / "me-end.json").write_text('{"channel": "me"}')

    def forget_index(self) -> None:
        """Remove the index, which does not read an ended run again."""
        shutil.rmtree(Project.find(str(self.root)).cache_directory, ignore_errors=True)

    def restore(self, name: str) -> None:
        """Replace a file by its original."""
        path = self.path / name
        remove(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(self.pristine / name, path)

    # --- Readings

    def readings(self) -> dict[str, Callable[[], Answer]]:
        """Return everything that reads the run, by name."""
        run, other = self.run_id, self.healthy
        commands = (
            ("history", "list"),
            ("history", "list", "-o", "table", "--all"),
            ("history", "list", "--plain"),
            ("history", "info", "-r", run),
            ("history", "info", "-r", run, "--plain"),
            ("history", "info", "-r", run, "-o", "table"),
            ("history", "info", "-r", run, "-a", "outputs/model.txt"),
            ("history", "compare", run, other),
            ("history", "compare", other, run, "--all", "-o", "json"),
            ("history", "compare", other, run, "--diff"),
            ("history", "last"),
            ("history", "families"),
            ("history", "export", "--format", "csv", str(self.exports / "runs.csv")),
            ("history", "export", "--format", "mlflow", str(self.exports / "mlruns")),
            ("logs", run),
            ("logs", run, "--tail", "3", "-o", "json"),
            ("logs", run, "--attempt", "1"),
            ("status",),
            ("status", "--line"),
            ("status", "-o", "json"),
            ("trace",),
            ("config", "check"),
            ("experiment", "stacks", "--last", "-r", run),
            ("project", "restore", "--run-id", run, "--dry-run"),
            ("project", "recent"),
            ("agent", "list"),
            ("experiment", "rerun", "-r", run, "--dry-run"),
            ("experiment", "clean", "--dry-run"),
        )
        found: dict[str, Callable[[], Answer]] = {}
        for words in commands:
            found[" ".join(words)] = lambda words=words: self._command(words)  # type: ignore[misc]
        for name, reading in self._screens().items():
            found[name] = lambda name=name, reading=reading: _screen(name, reading)  # type: ignore[misc]
        return found

    def _command(self, words: tuple[str, ...]) -> Answer:
        shutil.rmtree(self.exports, ignore_errors=True)
        self.exports.mkdir()
        with _captured() as out:
            code, trace = _guarded(
                lambda: cli.run([*words, *(() if words[-1] in ("recent",) else ("--project", str(self.root)))])
            )
        return Answer(" ".join(words), code, out(), trace)

    def _screens(self) -> dict[str, Callable[[], object]]:
        project = Project.find(str(self.root))
        runs, now = Runs(project), time.time()

        def row() -> Any:
            return next(each for each in runs.page(RunQuery()).rows if each.run.run_id == self.run_id)

        def run() -> Run:
            return row().run  # type: ignore[no-any-return]

        def panels() -> None:
            from tui_workbench.runs.gpu.run_verdict import verdict_of

            verdict = verdict_of(RunDirectory(str(self.path)))
            if verdict is not None:
                verdict_lines(verdict, 80)

        def comparison() -> None:
            both = [run(), runs.get(self.healthy)]
            found, names = read_comparison(project, both)
            rows_of(found, 0, show_same=True, words="a")
            for each in found.rows[:40]:
                read_difference(project, found, each, 0, 1)
            for name in names:
                run_curves([(both[0], 0), (both[1], 1)], name)

        def metrics() -> None:
            found = read_metrics(run())
            for name, summary in found.summary().items():
                found.series(name)
                details.logged_lines(found.items(summary.kind))

        def outputs() -> None:
            for name, _ in details.outputs_of(run()):
                with contextlib.suppress(WorkbenchError):
                    details.output_preview(run(), name, 80)

        def dashboard() -> None:
            read_overview(project, RunQuery(group="family"))
            for sort in ("created", "loss", "gpu_seconds", "argument lr"):
                read_page(project, RunQuery(sort=sort, filter="-zzz"), frozenset(), 0, 50)

        return {
            "screen: table": dashboard,
            "screen: head": lambda: (head_lines(row(), 80), head_lines(row(), 20)),
            "screen: plan": lambda: details.plan_of(run(), now),
            "screen: environment": lambda: (details.environment_of(run()), details.gpu_of(run())),
            "screen: spark": lambda: details.uses_spark(run()),
            "screen: verdict": panels,
            "screen: attempts": lambda: read_attempts(str(self.path)),
            "screen: metrics": metrics,
            "screen: outputs": outputs,
            "screen: comparison": comparison,
        }


def _screen(name: str, reading: Callable[[], object]) -> Answer:
    def call() -> int:
        reading()
        return 0

    code, trace = _guarded(call)
    return Answer(name, code, "", trace)


def _guarded(call: Callable[[], int]) -> tuple[int, str]:
    """Return the exit code of a call and "", or its traceback. A call that takes too long is ended."""

    def too_long(*_: object) -> None:
        raise TimeoutError(f"longer than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS)
    try:
        return call(), ""
    except WorkbenchError as error:
        return error.exit_code, ""
    except (Exception, SystemExit):
        return 1, traceback.format_exc()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _captured() -> Iterator[Callable[[], str]]:
    """Replace the standard streams by files, as `main` prepares them; yield a function that returns the text."""
    sys.stdout.flush()
    sys.stderr.flush()
    old = sys.stdout, sys.stderr, os.dup(1), os.dup(2)
    file = os.memfd_create("captured") if hasattr(os, "memfd_create") else os.open("/tmp", os.O_TMPFILE | os.O_RDWR)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.FileIO(number, "w", closefd=False), "utf-8", errors="backslashreplace") for number in (1, 2)
    )
    text = ""

    try:
        yield lambda: text
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os.lseek(file, 0, os.SEEK_SET)
        with open(file, "rb") as whole:
            text = whole.read().decode("utf-8", "replace")
        os.dup2(old[2], 1)
        os.dup2(old[3], 2)
        os.close(old[2])
        os.close(old[3])
        sys.stdout, sys.stderr = old[0], old[1]
