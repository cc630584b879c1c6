"""Samples of GPUs as a run's controller leaves them in `gpu.jsonl`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui_workbench.runs.gpu.usage import OWN
from tui_workbench.targets.gpu.sample import Device, Machine, Process, Reading, Sample, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

START = 1_700_000_000.0
T4 = Machine((Device(0, "GPU-0", "Tesla T4", 15360.0, 70.0),), "550.54", "12.4", "nvml")


def samples(utilization: Sequence[float | None], *, device: int = 0, whose: str = OWN, machine: Machine = T4) -> bytes:
    """Return a file with one sample per second, in which a process holds 1 GiB of the device."""
    lines = [encode(machine)]
    for second, value in enumerate(utilization):
        reading = Reading(device, value, 2048.0, 50.0, 60.0)
        sample = Sample(START + second, (reading,), (Process(4242, device, 1024.0, None, whose, "python"),))
        lines.append(encode(sample))
    return b"".join(lines)
