"""Give advice about a run that uses its GPUs badly: for each problem, a sentence with a figure and the usual fix.

The advice contains only facts that the samples show. The samples do not show why a GPU waits: the CPU time of the run
is not sampled, and pauses of less than a second appear only as a lower utilization.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tui_workbench.runs.gpu.usage import BUSY_PERCENT, DeviceUse, Usage
from tui_workbench.runs.gpu.verdict import gpus_text, size_text
from tui_workbench.targets.gpu.sample import Machine

_Names = Mapping[int, str]  # of the devices, by number

SHORTEST_SECONDS = 60.0
"""Minimum number of seconds on a GPU for any advice; shorter runs mostly load their model."""

WAITING_PART, WAITING_PAUSES = 0.2, 10
"""For advice on waits: minimum fraction of the time that a GPU waits between phases of work, and number of waits."""

THROTTLED_PART = 0.1
FULL_PART = 0.95
WORKING_PERCENT = 30.0
"""Minimum mean utilization of the busiest GPU of a run for advice about an idle GPU of the run."""


def advice_on(usage: Usage) -> tuple[str, ...]:
    """Return the advice on a run as sentences, the most important first; empty without advice.

    A sentence names the GPUs that have a problem, or the GPU on which the problem is worst.
    """
    held = {number: use for number, use in sorted(usage.devices.items()) if use.held > 0}
    if max((use.held for use in held.values()), default=0.0) < SHORTEST_SECONDS:
        return ()
    names = {device.number: device.name for device in usage.machine.devices}
    return tuple(
        sentence
        for sentence in (
            _unused(usage, names, held),
            _idle(names, held),
            _waiting(names, held),
            _hot(names, held),
            _limited(names, held),
            _full(usage.machine, names, held),
        )
        if sentence
    )


def _unused(usage: Usage, names: _Names, held: dict[int, DeviceUse]) -> str:
    unused = [number for number, use in sorted(usage.devices.items()) if not use.held and use.watched]
    if not usage.gives_all or usage.machine.hides_processes or not unused:
        return ""
    return (
        f"{len(unused)} of {len(usage.devices)} GPUs were given to the run but not used ({gpus_text(unused, names)}): "
        "start a process for each GPU (`ProcessesPerNode: gpus`), or request fewer"
    )


def _idle(names: _Names, held: dict[int, DeviceUse]) -> str:
    means = {number: mean for number, use in held.items() if (mean := use.mean_utilization) is not None}
    idle = [number for number, mean in means.items() if mean < BUSY_PERCENT]
    busiest = max(means.values(), default=0.0)
    if not idle or busiest < WORKING_PERCENT:
        return ""
    highest = max(means[number] for number in idle)
    return (
        f"{gpus_text(idle, names)} held memory but hardly computed "
        f"(mean {highest:.0f} %, busiest GPU {busiest:.0f} %): "
        "check that each process selects its own GPU and gets data"
    )


def _waiting(names: _Names, held: dict[int, DeviceUse]) -> str:
    waiting = [
        (number, use)
        for number, use in held.items()
        if use.pauses >= WAITING_PAUSES and use.paused >= WAITING_PART * use.held
    ]
    if not waiting:
        return ""
    number, use = max(waiting, key=lambda item: item[1].paused / item[1].held)
    return (
        f"{gpus_text([number], names)} waited {use.pauses} times between phases of work, "
        f"{100 * use.paused / use.held:.0f} % of the time, as when a script waits for data: "
        "more data loader workers, prefetching and pinned memory usually help"
    )


def _hot(names: _Names, held: dict[int, DeviceUse]) -> str:
    number, part = _most(held, [use.by_heat for use in held.values()])
    if part < THROTTLED_PART:
        return ""
    where = gpus_text([number], names)
    return f"heat reduced the clocks of {where} for {100 * part:.0f} % of the time: check its fans and airflow"


def _limited(names: _Names, held: dict[int, DeviceUse]) -> str:
    number, part = _most(held, [use.by_power for use in held.values()])
    if part < THROTTLED_PART:
        return ""
    return (
        f"the power limit reduced the clocks of {gpus_text([number], names)} for {100 * part:.0f} % of the time: "
        "a higher limit (`nvidia-smi -pl` for NVIDIA GPUs) or mixed precision usually helps"
    )


def _full(machine: Machine, names: _Names, held: dict[int, DeviceUse]) -> str:
    sizes = {device.number: device.memory for device in machine.devices if device.memory}
    parts = {number: (use.peak_held or 0.0) / sizes[number] for number, use in held.items() if number in sizes}
    number = max(parts, key=lambda device_number: parts[device_number], default=-1)
    if number < 0 or parts[number] < FULL_PART:
        return ""
    return (
        f"the memory of {gpus_text([number], names)} was almost full ({size_text(held[number].peak_held or 0.0)} of "
        f"{size_text(sizes[number])}): a smaller batch, mixed precision or gradient checkpointing usually helps"
    )


def _most(held: dict[int, DeviceUse], seconds: Sequence[float]) -> tuple[int, float]:
    """Return the GPU with the largest fraction of its time in `seconds`, and this fraction.

    `seconds` has a value for each GPU in `held`.
    """
    parts: Iterator[tuple[int, float]] = (
        (number, spent / use.held) for (number, use), spent in zip(held.items(), seconds, strict=True)
    )
    return max(parts, key=lambda item: item[1])
