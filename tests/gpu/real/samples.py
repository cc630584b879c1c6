"""Checks of the samples and of the monitor. Each returns what it found, and fails with an AssertionError."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from benchmarks.harness import Processor
from benchmarks.terminal import Terminal
from docs.terminal_pictures import draw, svg
from tests.faults.support import COMMAND
from tests.gpu.real.observer import FIELDS, Observer, Seen
from tests.gpu.real.place import Place, Skipped
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.gpu.nvml import NoLibrary, Nvml
from tui_workbench.targets.gpu.sample import Reading, Sample
from tui_workbench.targets.gpu.smi import Smi
from tui_workbench.targets.ssh.host_for import host_of

if TYPE_CHECKING:
    from collections.abc import Callable

TOLERANCES = {
    "utilization": 10.0,
    "memory": 64.0,
    "power": 25.0,
    "temperature": 3.0,
    "sm_clock": 60.0,
    "memory_clock": 30.0,
    "ecc": 0.0,
}
"""The greatest difference of the medians while the GPU is busy: %, MiB, W, degrees Celsius, MHz, errors."""

SCREEN = (160, 48)

SAMPLER_SHARE = 0.005
"""The share of a core that the sampler may use."""


def nvml_reports_what_nvidia_smi_reports(place: Place) -> str:
    try:
        nvml = Nvml()
    except NoLibrary as error:
        raise Skipped("the machine has no NVML library") from error
    nvml.machine()

    def look() -> list[Reading]:
        time.sleep(0.5)
        return _readings(nvml.look())

    try:
        return _compare_with_observer(place, look)
    finally:
        nvml.close()


def nvidia_smi_reports_the_same_through_the_workbench(place: Place) -> str:
    smi = Smi(host_of(ComputeTarget("local", "/x", "local")))
    smi.machine()
    try:
        return _compare_with_observer(place, lambda: _readings(smi.look(1.0)))
    finally:
        smi.close()


def _readings(records: object) -> list[Reading]:
    assert isinstance(records, list)
    samples = [each for each in records if isinstance(each, Sample)]
    return [reading for sample in samples for reading in sample.readings if reading.device == 0]


def _compare_with_observer(place: Place, look: Callable[[], list[Reading]]) -> str:
    """Compare the medians of each field while a process computes."""
    with Observer() as observer, place.other_process("compute.py", str(place.pace.short + 5), "cuda"):
        time.sleep(2.0)
        start = time.time()
        readings: list[Reading] = []
        while time.time() < start + place.pace.short:
            readings += look()
        seen = observer.between(start, time.time())
    assert readings, "no sample"
    return "; ".join(_field(name, readings, seen) for name in FIELDS)


def _field(name: str, readings: list[Reading], seen: list[Seen]) -> str:
    ours = [value for value in (getattr(each, name) for each in readings) if value is not None]
    theirs = [value for value in (each.values[name] for each in seen) if value is not None]
    assert bool(ours) == bool(theirs), f"{name}: only one of the two reports it"
    if not ours:
        return f"{name} not reported"
    if name == "throttle":
        assert {int(value) for value in ours} & {int(value) for value in theirs}, f"throttle: {ours} and {theirs}"
        return f"throttle {int(ours[-1]):#x}"
    one, other = statistics.median(ours), statistics.median(theirs)
    assert abs(one - other) <= TOLERANCES[name], f"{name}: {one:g}, nvidia-smi {other:g}"
    return f"{name} {one:g} ({other:g})"


def sampler_uses_little_of_a_core(place: Place) -> str:
    run_id = place.compute(place.pace.short + 10)
    place.until_sampled(run_id)
    processor = Processor(place.sampler())
    time.sleep(place.pace.short)
    share = processor.share()
    place.ended(run_id)
    assert share <= SAMPLER_SHARE, f"{share:.2%} of a core, limit {SAMPLER_SHARE:.2%}"
    return f"{share:.2%} of a core"


def monitor_shows_the_gpu_and_the_run(place: Place) -> str:
    run_id = place.compute(120)
    command = [*COMMAND, str(place.workbench.folder)]
    with Terminal(command, columns=SCREEN[0], rows=SCREEN[1], changes={"TERM": "xterm-256color"}) as terminal:
        terminal.until_text("compute.py", seconds=60)
        terminal.send("7")
        terminal.until(lambda: all(text in terminal.text() for text in ("1 GPU", "python")), seconds=60)
        terminal.settle(1.0)
        picture = place.folder / "monitor.svg"
        picture.write_text(svg([draw(terminal, str(place.folder / "home"))]), encoding="utf-8")
        (place.folder / "monitor.txt").write_text(terminal.text() + "\n", encoding="utf-8")
    place.workbench.run("experiment", "cancel", "--run", run_id)
    return f"{picture.name} and monitor.txt"
