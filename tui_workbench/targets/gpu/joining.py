"""Join the samples of several machines that execute one run.

The samples of all machines at about the same time become one sample. The GPUs of machine N are numbered from
N * NODE_STEP. Samples of one machine can arrive later than those of others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from tui_workbench.targets.gpu.sample import Machine, Sample

WAIT_SECONDS = 60.0
"""The longest time that samples of a machine wait for samples of others, measured by the times of the samples."""

_TOGETHER = 0.6  # samples of different machines that are fewer seconds apart count as one


class Source:
    """The samples of one machine that are not joined yet."""

    def __init__(self) -> None:
        self.samples: deque[Sample] = deque()
        self.last = 0.0  # the time of the last sample


def join(sources: Mapping[int, Source], *, is_last: bool) -> Iterator[tuple[Sample, Mapping[int, Sample]]]:
    """Remove samples from the sources, and yield the joined samples, each with its parts by machine number.

    With `is_last`, no more samples will arrive.
    """
    newest = max((source.last for source in sources.values()), default=0.0)
    while True:
        heads = [source.samples[0].time for source in sources.values() if source.samples]
        first = min(heads, default=0.0)
        is_awaited = any(
            not source.samples and newest - max(source.last, first) < WAIT_SECONDS for source in sources.values()
        )
        if not heads or (is_awaited and len(sources) > 1 and not is_last):
            return
        parts = {
            number: source.samples.popleft()
            for number, source in sources.items()
            if source.samples and source.samples[0].time < first + _TOGETHER
        }
        readings = tuple(reading for part in parts.values() for reading in part.readings)
        processes = tuple(process for part in parts.values() for process in part.processes)
        yield Sample(first, readings, processes), parts


def joined_machine(machines: Sequence[Machine]) -> Machine:
    """Join the descriptions of one or more machines: the GPUs of all, and the driver of the first that has GPUs."""
    devices = tuple(device for machine in machines for device in machine.devices)
    first = next((machine for machine in machines if machine.devices), machines[0])
    return first._replace(devices=devices, hides_processes=any(machine.hides_processes for machine in machines))
