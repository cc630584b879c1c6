"""Time of a call of `workbench.log` in a training script.

    python -m benchmarks.log_call

The value is the median of 100,000 calls with changing values and steps, in a script that the workbench started. The
baseline writes the same line with `json` and flushes the file. With four threads and with four processes, calls must
stay fast and none may be lost.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from benchmarks.harness import COUNT, Unit, check, environment, finish, note, python
from tui_workbench.runs.metrics import RunMetrics
from tui_workbench.targets.base.run_environment import PYTHON_PATH_VARIABLE, SDK_FOLDER
from tui_workbench.targets.hosts.processes import RUN_DIRECTORY_VARIABLE

CALL_LIMIT = 10e-6
CALLS_A_SECOND = 100_000
CALLS = 100_000
MICROSECONDS = Unit("us", 1e-6, 2)

SCRIPT = """\
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
    return sorted(taken)

result = {}
for name, log in (("warm", workbench.log), ("ours", workbench.log), ("json", with_json)):
    taken = measured(log)
    result[name] = [taken[calls // 2], taken[calls * 99 // 100], sum(taken)]
print(json.dumps(result))
"""


def main() -> int:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        found = finished(start(folder, CALLS, "train/loss"))
        median, slow, total = found["ours"]
        baseline = found["json"][0]
        check("workbench.log: a call, median", median, CALL_LIMIT, MICROSECONDS)
        # A rate that may not fall below a limit: its inverse may not exceed the inverse.
        check("workbench.log: 100,000 calls", total, CALLS / CALLS_A_SECOND, Unit("s", 1.0, 2))
        note(
            f"p99 {MICROSECONDS.show(slow)}; json.dump and flush {MICROSECONDS.show(baseline)}, "
            f"{baseline / median:.1f} x ours"
        )
    with tempfile.TemporaryDirectory() as folder:
        ranks = [start(folder, CALLS // 4, f"rank{number}") for number in range(4)]
        medians = [finished(rank)["ours"][0] for rank in ranks]
        check(
            f"four ranks on {os.cpu_count()} cores: a call, median of the slowest",
            max(medians),
            CALL_LIMIT,
            MICROSECONDS,
        )
        metrics = RunMetrics(folder)
        metrics.refresh()
        kept = sum(summary.count for summary in metrics.summary().values())
        check("four ranks: lines lost or torn", 2 * CALLS - kept + len(metrics.notes()), 0, COUNT)
    return finish()


def start(folder: str, calls: int, name: str) -> subprocess.Popen[str]:
    """Start a script that measures itself, in a run with this directory."""
    variables = environment({PYTHON_PATH_VARIABLE: SDK_FOLDER, RUN_DIRECTORY_VARIABLE: folder})
    command = [python(), "-c", SCRIPT, str(calls), name]
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True)


def finished(process: subprocess.Popen[str]) -> dict[str, list[float]]:
    """Return the measurements of a script."""
    out, _ = process.communicate()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, "the script")
    found: dict[str, list[float]] = json.loads(out)
    return found


if __name__ == "__main__":
    sys.exit(main())
