"""Kinds of training scripts: when they print, write files and use the GPU, in seconds since their start."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tests.runs.gpu.samples import START
from tui_workbench.runs.gpu.recording import FileWatch
from tui_workbench.runs.gpu.usage import OWN, Usage
from tui_workbench.runs.store.rundir import OUTPUT
from tui_workbench.targets.gpu.sample import Device, Machine, Process, Reading, Sample
from tui_workbench.targets.hosts.supervisor import METRICS, RANKS

if TYPE_CHECKING:
    from pathlib import Path

When = Callable[[int], bool]
MINUTE, HOUR = 60, 3600


def never(second: int) -> bool:
    return False


def always(second: int) -> bool:
    return True


def every(period: int, lasting: int = 1) -> When:
    """Return the seconds at the end of each period, which last for this time."""
    return lambda second: second >= period and second % period < lasting


def until(end: int, then: When) -> When:
    return lambda second: second < end and then(second)


def since(begin: int, then: When = always) -> When:
    return lambda second: second >= begin and then(second - begin)


def either(*ones: When) -> When:
    return lambda second: any(one(second) for one in ones)


class Kind(NamedTuple):
    """A kind of script. The functions tell in which seconds something happens."""

    name: str
    seconds: int
    prints: When = never
    writes: When = never  # files in `outputs/` or the working copy
    logs: When = never  # values with `workbench.log`
    rank_prints: When = never  # only the log of rank 1
    holds: When = always  # memory of the GPU
    load: Callable[[int], float | None] = lambda second: 95.0
    gpus: int = 1
    is_sampled: When = always
    clock: Callable[[int], float] = lambda second: 0.0  # deviation of the clock that gives samples their time
    stalls: str = ""  # the time of the stall after the last change: `15 min`; "" for a run that never stalls


class Outcome(NamedTuple):
    """The silence in seconds at which a simulated run first counted as stalled, or 0, and its totals at the end."""

    first: float
    usage: Usage


def simulate(kind: Kind, folder: Path) -> Outcome:
    """Execute a script of this kind second by second, in simulated time."""
    (folder / RANKS).mkdir()
    files = [0]
    watch = FileWatch(str(folder), lambda: f"mark {files[0]}")
    usage = Usage()
    usage.machine = Machine(tuple(Device(number, f"GPU-{number}", "T4", 15360.0) for number in range(kind.gpus)))
    first = 0.0
    for second in range(kind.seconds):
        files[0] += kind.writes(second)
        for name, happens in ((OUTPUT, kind.prints), (METRICS, kind.logs), (f"{RANKS}/1.log", kind.rank_prints)):
            if happens(second):
                with (folder / name).open("a") as file:
                    file.write(".")
        if kind.is_sampled(second):
            usage.add(_sample(kind, second, watch.quiet(float(second))))
            first = first or (usage.progress.quiet if usage.progress.is_stalled() else 0.0)
    return Outcome(first, usage)


def _sample(kind: Kind, second: int, quiet: float | None) -> Sample:
    numbers = range(kind.gpus)
    holds = kind.holds(second)
    readings = tuple(Reading(number, kind.load(second) if holds else 0.0, 2048.0) for number in numbers)
    processes = tuple(Process(7 + number, number, 1024.0, user=OWN) for number in numbers) if holds else ()
    return Sample(START + second + kind.clock(second), readings, processes, quiet)


def suspended(second: int) -> bool:
    """Return False in the hour in which the machine is suspended."""
    return not 30 * MINUTE <= second < 90 * MINUTE


STEPS = every(1)

KINDS = (
    Kind("sample script, one line per epoch", 20 * MINUTE, every(9)),
    Kind("nanoGPT: a step every 12 s, an evaluation of 4 min", 3 * HOUR,
         lambda second: second % (40 * MINUTE) > 4 * MINUTE and second % 12 == 0, every(40 * MINUTE)),
    Kind("tqdm, which redraws one line", 40 * MINUTE, STEPS),
    Kind("quiet script with a checkpoint every 10 min", 6 * HOUR, writes=every(10 * MINUTE)),
    Kind("quiet script with a checkpoint every hour", 12 * HOUR, writes=every(HOUR, 20)),
    Kind("some lines, then quiet for 3 h", 3 * HOUR, until(20, always)),
    Kind("no output and no file for 5 h", 5 * HOUR),
    Kind("a line per epoch of 25 min", 4 * HOUR, either(until(15, always), every(25 * MINUTE))),
    Kind("evaluation of 12 min after each epoch of 30 min", 4 * HOUR,
         lambda second: second % (42 * MINUTE) < 30 * MINUTE),
    Kind("torch.compile: 8 min of silence at the start", 40 * MINUTE, either(until(10, always), since(8 * MINUTE))),
    Kind("torch.compile again after an hour", 2 * HOUR,
         lambda second: not HOUR <= second < HOUR + 13 * MINUTE and second > 8 * MINUTE),
    Kind("download with a progress bar, then quiet epochs of 20 min", 3 * HOUR,
         either(until(30 * MINUTE, always), since(30 * MINUTE, every(20 * MINUTE))), holds=since(30 * MINUTE)),
    Kind("download without output for 1 h", 90 * MINUTE, since(HOUR, STEPS), holds=since(HOUR)),
    Kind("script that sleeps for 20 min between batches", 6 * HOUR, every(20 * MINUTE, 30), load=lambda second: 0.0),
    Kind("torchrun, of which only rank 1 prints", HOUR, rank_prints=every(5)),
    Kind("notebook: cells with pauses of 14 min", 3 * HOUR, lambda second: second % (17 * MINUTE) < 3 * MINUTE),
    Kind("TensorBoard only, written every 2 min", 2 * HOUR, writes=every(2 * MINUTE)),
    Kind("only workbench.log", HOUR, logs=every(30)),
    Kind("metrics in bursts every 12 min", 4 * HOUR, logs=every(12 * MINUTE, 5)),
    Kind("run of 3 seconds", 3, STEPS),
    Kind("64 GPUs", 20 * MINUTE, every(7), gpus=64),
    Kind("clock set forward by a day", 40 * MINUTE, every(20), clock=lambda second: 86400.0 * (second > 1200)),
    Kind("clock set back by a day", 40 * MINUTE, every(20), clock=lambda second: -86400.0 * (second > 1200)),
    Kind("machine suspended for 1 h", 2 * HOUR, lambda second: suspended(second) and second % 20 == 0,
         is_sampled=suspended),
    Kind("driver that hangs for 1 h while the script waits", 2 * HOUR,
         lambda second: suspended(second) and second % 20 == 0, is_sampled=suspended, load=lambda second: None),
    Kind("silence of 14 min in a run with a step every second", HOUR,
         lambda second: not 30 * MINUTE <= second < 44 * MINUTE),
    Kind("GPU released at the end, upload without output for 1 h", 2 * HOUR, until(HOUR, STEPS),
         holds=until(HOUR, always)),
    Kind("hang in a collective operation at 100 %", 90 * MINUTE, until(30 * MINUTE, every(12)),
         load=lambda second: 100.0, stalls="15 min"),
    Kind("deadlock of the data loader, memory held", 90 * MINUTE, until(40 * MINUTE, every(2)),
         load=lambda second: 0.0 if second > 40 * MINUTE else 80.0, stalls="15 min"),
    Kind("hang after checkpoints every 10 min", 4 * HOUR, writes=until(2 * HOUR, every(10 * MINUTE)), stalls="30 min"),
    Kind("hang after one compilation of 12 min", 3 * HOUR,
         lambda second: 12 * MINUTE <= second < HOUR, stalls="18 min"),
    Kind("64 ranks that hang, clock set back meanwhile", HOUR, until(20 * MINUTE, every(5)), gpus=64,
         clock=lambda second: -7200.0 * (second > 25 * MINUTE), stalls="15 min"),
    Kind("hang before the first step", 7 * HOUR, until(5, always), stalls="6.0 h"),
)  # fmt: skip
