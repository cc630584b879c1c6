"""Processor time per second of the GPU sampler and of the controller's share.

The drivers are the stand-ins of the tests; a real driver takes additional time. The limit is a share of one core.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness import finish
from tests.gpu.standin import Standin, build, gpu, process
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.gpu.feed import Feed

SECONDS = 10.0
PROMISE = 0.01
_TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(marks: tuple[bytes, bytes]) -> float:
    """Return the processor time of the processes with one of the marks in their command line."""
    total = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", name, "cmdline").read_bytes()
            if any(mark in words for mark in marks) and int(name) != os.getpid():
                fields = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
                total += int(fields[11]) + int(fields[12])
        except OSError:
            continue
    return total / _TICKS


def share_of_a_core(gpus: int, *, library: bool) -> tuple[float, float]:
    """Return the processor time per second of the sampler with its children, and of a reader."""
    with tempfile.TemporaryDirectory(prefix="wb-gpu-") as name:
        os.environ["XDG_STATE_HOME"] = name
        parts = build(Path(name))
        standin = Standin(Path(name, "gpus"), parts)
        standin.write(*(gpu(each) for each in range(gpus)), *(process(os.getpid(), each) for each in range(gpus)))
        os.environ.update(standin.variables)
        if not library:
            (parts.libraries / "libnvidia-ml.so.1").unlink()
        # The shell that listens to nvidia-smi has it in its text; the stand-in's own time says nothing of a real one's.
        marks = (b"gpu.sampler", b"nvidia-smi --query")
        with Feed(ComputeTarget("local", "/x", "local")) as feed:
            while not feed.machine:
                feed.read()
                time.sleep(0.1)
            time.sleep(2)
            before, own, began = processor_seconds(marks), time.process_time(), time.monotonic()
            while time.monotonic() < began + SECONDS:
                feed.read()
                time.sleep(1)
            passed = time.monotonic() - began
            found = (processor_seconds(marks) - before) / passed, (time.process_time() - own) / passed
        while processor_seconds((b"gpu.sampler", b"gpu.sampler")):
            time.sleep(0.2)
        return found


def main() -> int:
    """Print a line for each driver interface."""
    failed = False
    for gpus, library in ((1, True), (8, True), (1, False), (8, False)):
        sampler, listener = share_of_a_core(gpus, library=library)
        failed |= sampler > PROMISE
        how = "NVML" if library else "nvidia-smi"
        print(
            f"{gpus} GPU{'s' * (gpus > 1)} by {how}: sampler {100 * sampler:.2f} %, listener {100 * listener:.2f} % "
            f"of a core (promise {100 * PROMISE:.0f} % {'kept' if sampler <= PROMISE else 'BROKEN'})"
        )
    return finish() or int(failed)


if __name__ == "__main__":
    sys.exit(main())
