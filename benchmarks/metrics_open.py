"""Time to open the metrics of large runs for their charts.

    python -m benchmarks.metrics_open

A run with 1,000,000 points in a curve, and 20 runs with 50,000 points each: in a new process, from the run directory
to the points of a chart of 200 columns. The baseline reads the files that the run wrote, as for an active run,
without the cache of an ended run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import partial

from benchmarks.harness import SECONDS, check, environment, finish, measure, note, percentile, process_time, python
from tui_workbench.runs.metrics.recording import MetricsRecorder
from tui_workbench.runs.store.rundir import RunDirectory

LIMIT = 0.5
ROUNDS = 7

OPEN = """\
import sys, time
begun = time.perf_counter()
from tui_workbench.runs.metrics import RunMetrics, downsample
drawn = 0
for directory in sys.argv[3:]:
    metrics = RunMetrics(directory, use_stored=sys.argv[1] == "stored")
    metrics.refresh()
    assert "loss" in metrics.summary()
    series = metrics.series("loss")
    assert len(series.values) == int(sys.argv[2])
    drawn += len(downsample(series, 200).values)
assert drawn >= 200
print(time.perf_counter() - begun)
"""


def main() -> int:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        one = [make_run(os.path.join(folder, "one"), 1_000_000)]
        many = [make_run(os.path.join(folder, f"many{number}"), 50_000) for number in range(20)]
        for name, runs, points in (("1,000,000 points", one, 1_000_000), ("20 runs of 50,000 points", many, 50_000)):
            times = [measure(partial(opened, "stored", runs, points)) for _ in range(ROUNDS)]
            check(f"{name}: opened for a chart", percentile(times, 50), LIMIT, SECONDS)
            anew = measure(partial(opened, "anew", runs, points))
            note(
                f"p95 {SECONDS.show(percentile(times, 95))}; from the run's own files, as while it goes on: "
                f"{SECONDS.show(anew)}"
            )
        check("the same with the start of Python: 1,000,000 points", whole(one, 1_000_000), LIMIT, SECONDS)
    return finish()


def make_run(directory: str, points: int) -> str:
    """Create the directory of an ended run with a logged curve."""
    os.makedirs(directory)
    with open(f"{directory}/metrics.jsonl", "w", encoding="ascii") as file:
        for step in range(points):
            value = 1 / (step + 1) + step % 7 / 100
            file.write(f'{{"name":"loss","step":{step},"value":{value!r},"time":{1.7e9 + step / 100:.6f}}}\n')
    run = RunDirectory(directory)
    recorder = MetricsRecorder(run)
    recorder.read()
    recorder.store()
    run.append_event("state", state="completed", reason="", final=True, end=1_800_000_000.0)
    return directory


def opened(how: str, runs: list[str], points: int) -> float:
    """Return the seconds of a new process to open the runs, without its start."""
    command = [python(), "-c", OPEN, how, str(points), *runs]
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, check=True)
    seconds: float = json.loads(done.stdout)
    return seconds


def whole(runs: list[str], points: int) -> float:
    """Return the seconds of a whole process."""
    return percentile([process_time([python(), "-c", OPEN, "stored", str(points), *runs]) for _ in range(ROUNDS)], 50)


if __name__ == "__main__":
    sys.exit(main())
