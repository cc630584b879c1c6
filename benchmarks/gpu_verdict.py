"""Time to compute the verdict of a run of a day from its last sum.

The baseline reads the same file and parses its lines as JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import compare, finish, measure
from tui_workbench.runs.gpu.judging import fresh_verdict
from tui_workbench.runs.gpu.usage import OWN, SUM_EVERY, Usage, sum_line
from tui_workbench.targets.gpu.sample import Device, Machine, Process, Reading, Sample, encode

SAMPLES = 24 * 3600
PROMISE_SECONDS = 0.3


def write_day(path: Path) -> None:
    """Record a day of one GPU at 1 Hz, as a controller does."""
    usage = Usage()
    usage.machine = Machine((Device(0, "GPU-0", "Tesla T4", 15360, 70.0),), "550.54", "12.4", "nvml")
    with path.open("wb") as file:
        file.write(encode(usage.machine))
        for number in range(SAMPLES):
            reading = Reading(0, (7 * number) % 101, 9000.0, 60.0 + number % 10, 70, 1590, 5000, 4, 0)
            process = Process(4242, 0, 8500.0 + number % 7, None, OWN, "python")
            sample = Sample(1.7e9 + number, (reading,), (process,))
            usage.add(sample)
            file.write(encode(sample))
            if (number + 1) % SUM_EVERY == 0 and number + 50 < SAMPLES:
                file.write(sum_line(usage))


def main() -> int:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "gpu.jsonl")
        write_day(path)

        def parse() -> None:
            for line in path.read_bytes().split(b"\n")[:-1]:
                json.loads(line)

        def verdict() -> None:
            found = fresh_verdict(name, {})
            assert found is not None
            assert found.samples == SAMPLES

        seconds = min(measure(verdict) for _ in range(5))
        compare("verdict of a day", verdict, parse, 0.1, 5, baseline_name="parsing its lines")
        promised = f"of {PROMISE_SECONDS * 1000:.0f} ms promised"
        print(f"verdict of a day: {seconds * 1000:.1f} ms {promised}")
        return finish() or int(seconds > PROMISE_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
