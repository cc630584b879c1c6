"""Measure metrics: a call to `workbench.log`, and opening the curves of large runs.

    python -m benchmarks.metrics

Logging: a script with the environment of a run calls `workbench.log` many times. The baseline writes the same line
with `json` and flushes the file. No call may be lost when four processes log.

Opening: a run with many points, from its directory to the points of a chart of 200 columns, in a new process. The
baseline parses the lines of its uncompressed `metrics.jsonl`. On the screens, the time from the key to the chart is
compared with a run with 100 points.

End: the time from the last line of a script to the recorded end of its run. A run with many points is compared with a
run with 100 points.

Disk: the size of all files with metrics of an ended run with a call of `workbench.log` for each of many points. The
values are random doubles. The baseline is the size of the logged lines alone.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from benchmarks.harness import COUNT, MICROSECONDS, Unit, check, compare, compare_values, environment, finish, python
from benchmarks.log_programs import write_project
from benchmarks.terminal import Seen, Terminal
from tests.ui.runs.past import past_run
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.metrics import RunMetrics
from tui_workbench.runs.metrics.recording import MetricsRecorder
from tui_workbench.runs.store.logged import logged_size
from tui_workbench.runs.store.rundir import METRICS, RunDirectory
from tui_workbench.targets.base.run_environment import PYTHON_PATH_VARIABLE
from tui_workbench.targets.hosts.processes import RUN_DIRECTORY_VARIABLE
from tui_workbench.targets.values import SDK_FOLDER

CALLS = 40_000
CALL_LIMIT = 1.0

POINTS, FEW = 500_000, 100
OPEN_LIMIT = 0.1
CHART_LIMIT = 8.0
COLUMNS, ROWS = 120, 36
ESCAPE = "\x1b"

END_MARGIN = 0.2  # seconds
ENDING = """\
import sys, time, workbench
for step in range(int(sys.argv[1]) // 100):
    for number in range(100):
        workbench.log("metric%d" % number, 1 / (step + 1), step)
with open("ended", "w") as file:
    print(time.time(), file=file)
"""

DISK_LIMIT = 40.0  # bytes
BYTES = Unit("bytes", 1.0)
RANDOM = """\
import random, sys, workbench
for step in range(int(sys.argv[1]) // 100):
    for number in range(100):
        workbench.log("metric%d" % number, random.random(), step)
"""

LOGGING = """\
import json, os, sys, time
import workbench
calls, clock = int(sys.argv[1]), time.perf_counter

def with_json(name, value, step, file=open(os.environ["WORKBENCH_RUN_DIRECTORY"] + "/baseline", "w")):
    json.dump({"name": name, "step": step, "value": value, "time": time.time()}, file)
    file.write("\\n")
    file.flush()

def measured(log):
    taken = []
    for step in range(calls):
        value = 1 / (step + 1)
        begun = clock()
        log(sys.argv[2], value, step)
        taken.append(clock() - begun)
    return sorted(taken)[calls // 2]

print(json.dumps([measured(workbench.log), measured(workbench.log), measured(with_json)]))
"""

OPEN = """\
import sys, time
begun = time.process_time()
from tui_workbench.runs.metrics import RunMetrics, downsample
metrics = RunMetrics(sys.argv[1])
metrics.refresh()
series = metrics.series("loss")
assert len(series.values) == int(sys.argv[2])
assert len(downsample(series, 200).values) >= 200
print(time.process_time() - begun)
"""

PARSE = """\
import json, sys, time
begun = time.process_time()
with open(sys.argv[1]) as file:
    assert sum(json.loads(line)["name"] == "loss" for line in file) == int(sys.argv[2])
print(time.process_time() - begun)
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        measure_calls(folder)
    with tempfile.TemporaryDirectory() as folder:
        root, large = make_project(os.path.join(folder, "project"))
        measure_open(root, large)
        measure_chart(root, folder)
    with tempfile.TemporaryDirectory() as folder:
        measure_end(os.path.join(folder, "project"))
    with tempfile.TemporaryDirectory() as folder:
        measure_disk(os.path.join(folder, "project"))
    return finish()


def measure_calls(folder: str) -> None:
    """Compare a call with `json`, and count the lines of four processes."""
    _, ours, baseline = finished(start(folder, CALLS, "train/loss"))
    name = "call of `workbench.log`"
    compare_values(name, ours, baseline, CALL_LIMIT, baseline_name="`json.dump` and flush", unit=MICROSECONDS)
    for rank in [start(folder, CALLS // 4, f"rank{number}") for number in range(4)]:
        finished(rank)
    metrics = RunMetrics(folder)
    metrics.refresh()
    kept = sum(summary.count for summary in metrics.summary().values())
    check("four ranks, lines lost or torn", 4 * CALLS - kept + len(metrics.notes()), 0, COUNT)


def start(folder: str, calls: int, name: str) -> subprocess.Popen[str]:
    """Start a script that measures itself, in a run with this directory."""
    variables = environment({PYTHON_PATH_VARIABLE: SDK_FOLDER, RUN_DIRECTORY_VARIABLE: folder})
    command = [python(), "-c", LOGGING, str(calls), name]
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True)


def finished(process: subprocess.Popen[str]) -> list[float]:
    """Wait for a script and return its medians: of the first calls, of later calls, and of calls of `json`."""
    out, _ = process.communicate()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, "the script")
    found: list[float] = json.loads(out)
    return found


def make_project(root: str) -> tuple[str, str]:
    """Create a project with a small run and a newer large run. Return the paths of the project and the large run."""
    os.makedirs(os.path.join(root, "aml_config"))
    project = Project.find(root)
    project.prepare_state()
    directory = ""
    for number, points in enumerate((FEW, POINTS), 1):
        values = [1 / (1 + step / points) for step in range(points)]
        run_id = past_run(project, number, script="many.py", curves={"loss": values})
        directory = os.path.join(project.runs_directory, run_id)
        shutil.copy(os.path.join(directory, METRICS), lines_of(root))
        recorder = MetricsRecorder(RunDirectory(directory))
        recorder.read()
        recorder.store()
        recorder.store_late()
    return root, directory


def lines_of(root: str) -> str:
    """Return the path of a copy of the lines of the large run."""
    return os.path.join(root, METRICS)


def measure_open(root: str, directory: str) -> None:
    """Compare the processor time to open a run with that to parse its lines, without the start of Python."""

    def seconds_of(program: str, path: str) -> float:
        command = [python(), "-c", program, path, str(POINTS)]
        return float(subprocess.run(command, env=environment(), stdout=subprocess.PIPE, check=True).stdout)

    name = f"{POINTS:,} points, opened for a chart"
    compare(
        name,
        lambda: seconds_of(OPEN, directory),
        lambda: seconds_of(PARSE, lines_of(root)),
        OPEN_LIMIT,
        2,
        baseline_name="`json.loads`",
        warmup=0,
    )


def measure_chart(root: str, folder: str) -> None:
    """Compare the times from a key to the chart of a run. The expected text is on the axis of the chart."""
    command = [python(), "-m", "tui_workbench", root]
    with Terminal(
        command, columns=COLUMNS, rows=ROWS, directory=folder, changes={"HOME": folder}, emulate=False
    ) as terminal:
        seen = Seen(terminal)
        seen.until(b"5 Jobs")
        terminal.settle(1.0)
        seen.after("6", b"many.py")

        def opened(key: str, expected: bytes) -> float:
            terminal.settle()
            terminal.send(key)
            taken = seen.after("\r", expected)
            terminal.settle()
            terminal.send(ESCAPE)
            terminal.settle(0.2)
            return taken

        compare(
            f"{POINTS:,} points, key press until the chart is shown",
            lambda: opened("k", b"300,000"),
            lambda: opened("j", b" 60 "),
            CHART_LIMIT,
            2,
            baseline_name=f"{FEW} points",
        )


def measure_end(root: str) -> None:
    """Compare the times from the last line of a script to the end of its run."""
    runs = write_project(root, ENDING)

    def ended(points: int) -> float:
        run = runs.submit(RunRequest("local", "script.py", (str(points),)))
        while (run := runs.get(run.run_id)).is_active:
            time.sleep(0.01)
        with open(os.path.join(root, "ended"), encoding="utf-8") as file:
            return time.time() - float(file.read())

    compare(
        f"{POINTS:,} points of 100 metrics, from the script's last line to the recorded end of the run",
        lambda: ended(POINTS),
        lambda: ended(FEW),
        1.0,
        2,
        baseline_name=f"{FEW} points",
        margin=END_MARGIN,
        warmup=0,
    )


def measure_disk(root: str) -> None:
    """Compare the bytes on disk of each point of an ended run that logs 100 metrics at each step."""
    runs = write_project(root, RANDOM)
    run = runs.submit(RunRequest("local", "script.py", (str(POINTS),)))
    while runs.get(run.run_id).is_active or os.path.exists(os.path.join(run.directory, METRICS)):
        time.sleep(0.01)
    with os.scandir(run.directory) as entries:
        size = sum(entry.stat().st_size for entry in entries if entry.name.startswith("metrics."))
    compare_values(
        f"{POINTS:,} points of 100 metrics, disk space of each point after the end of the run",
        size / POINTS,
        logged_size(run.directory) / POINTS,
        0,
        baseline_name="the lines of `workbench.log`",
        margin=DISK_LIMIT,
        unit=BYTES,
    )


if __name__ == "__main__":
    sys.exit(main())
