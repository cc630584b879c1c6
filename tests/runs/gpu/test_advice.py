"""Advice about runs that use their GPUs badly: one sentence with the figure for each cause."""

from __future__ import annotations

import pytest

from tests.runs.gpu.test_usage import T4, add, own
from tui_workbench.runs.gpu.advice import advice_on
from tui_workbench.runs.gpu.judging import judge
from tui_workbench.runs.gpu.usage import Usage
from tui_workbench.runs.gpu.verdict import from_json, summary, to_json
from tui_workbench.targets.gpu.sample import Reading, Sample

POWER_CAP, HEAT, GPU_IDLE, APPLICATION_CLOCKS = 0x4, 0x40, 0x1, 0x2
WAITING = (
    "GPU 0 waited 99 times between phases of work, 33 % of the time, as when a script waits for data: "
    "more data loader workers, prefetching and pinned memory usually help"
)


def usage() -> Usage:
    made = Usage()
    made.machine = T4
    return made


def two(loads: tuple[float, float], *devices: int, seconds: int = 120) -> Usage:
    """Return the totals of two GPUs with these loads; the run holds memory of `devices`."""
    made = usage()
    for _ in range(seconds):
        readings = tuple(Reading(number, load, 2000) for number, load in enumerate(loads))
        made.add(Sample((made.last or 1000.0) + 1, readings, tuple(own(each) for each in devices)))
    return made


def in_bursts(work: int, pause: int, load: float = 90.0) -> Usage:
    made = usage()
    for _ in range(100):
        add(made, work, Reading(0, load, 2000), own())
        add(made, pause, Reading(0, 0.0, 2000), own())
    return made


def test_healthy_run_gets_no_advice() -> None:
    assert advice_on(add(usage(), 3600, Reading(0, 95, 9000, 60, throttle=0), own())) == ()


def test_short_run_gets_no_advice() -> None:
    assert advice_on(add(usage(), 59, Reading(0, 95, 15300, 60, throttle=HEAT), own())) == ()


def test_pauses_between_phases_of_work_are_counted() -> None:
    assert advice_on(in_bursts(4, 2)) == (WAITING,)


@pytest.mark.parametrize("of", [in_bursts(20, 1), in_bursts(4, 2, load=0.0), in_bursts(60, 40)])
def test_rare_or_long_pauses_are_no_wait_for_data(of: Usage) -> None:
    assert not any("waited" in text for text in advice_on(of))


def test_loading_before_the_first_work_is_no_pause() -> None:
    of = add(usage(), 20, Reading(0, 0.0, 2000), own())
    assert advice_on(add(of, 100, Reading(0, 90.0, 2000), own())) == ()


def test_idle_gpu_beside_a_busy_one_is_named() -> None:
    assert advice_on(two((92.0, 1.0), 0, 1)) == (
        "GPU 1 held memory but hardly computed (mean 1 %, busiest GPU 92 %): "
        "check that each process selects its own GPU and gets data",
    )
    assert advice_on(two((1.0, 1.0), 0, 1)) == ()


def test_given_gpu_without_memory_is_named() -> None:
    of = two((92.0, 0.0), 0)
    assert advice_on(of) == ()  # on a machine whose GPUs all runs share
    of.gives_all = True
    assert advice_on(of) == (
        "1 of 2 GPUs were given to the run but not used (GPU 1): "
        "start a process for each GPU (`ProcessesPerNode: gpus`), or request fewer",
    )


@pytest.mark.parametrize(
    ("throttle", "words"),
    [
        (HEAT, "heat reduced the clocks of GPU 0 for 25 % of the time: check its fans and airflow"),
        (POWER_CAP, "the power limit reduced the clocks of GPU 0 for 25 % of the time: a higher limit "
                    "(`nvidia-smi -pl` for NVIDIA GPUs) or mixed precision usually helps"),
        (GPU_IDLE, ""),
        (APPLICATION_CLOCKS, ""),
        (None, ""),
    ],
)  # fmt: skip
def test_reduced_clocks_are_explained(throttle: int | None, words: str) -> None:
    of = add(usage(), 90, Reading(0, 90, 2000, throttle=0), own())
    assert advice_on(add(of, 30, Reading(0, 90, 2000, throttle=throttle), own())) == ((words,) if words else ())


@pytest.mark.parametrize(("memory", "is_full"), [(14000, False), (14900, True)])
def test_almost_full_memory_is_named(memory: int, is_full: bool) -> None:
    sentence = (
        "the memory of GPU 0 was almost full (14.6 GiB of 15.0 GiB): "
        "a smaller batch, mixed precision or gradient checkpointing usually helps"
    )
    assert advice_on(add(usage(), 120, Reading(0, 90, memory), own())) == ((sentence,) if is_full else ())


def test_verdict_holds_the_advice() -> None:
    verdict = judge(in_bursts(4, 2), (), {}, final=True)
    assert verdict.advice == (WAITING,)
    assert from_json(to_json(verdict)) == verdict
    assert WAITING in " ".join(" ".join(summary(verdict)).split())
