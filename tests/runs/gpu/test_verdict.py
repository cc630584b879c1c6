"""The verdicts and their figures."""

from __future__ import annotations

import json

import pytest

from tests.runs.gpu.test_usage import T4, add, other, own
from tui_workbench.core.model import RunConfiguration, RunState
from tui_workbench.runs.gpu.evidence import AGAINST, FOR
from tui_workbench.runs.gpu.judging import judge, judged
from tui_workbench.runs.gpu.usage import Usage
from tui_workbench.runs.gpu.verdict import (
    IDLE,
    NOT_USED,
    PROVEN,
    SHARED,
    UNKNOWN,
    Evidence,
    Verdict,
    from_json,
    summary,
    to_json,
)
from tui_workbench.runs.store.rundir import Ending
from tui_workbench.targets.gpu.sample import Device, Machine, Reading, Sample

CPU_BUILD = Evidence(AGAINST, "PyTorch", ("PyTorch 2.13.0+cpu is a CPU build",), 1, "PyTorch is a CPU build")
BLOCK = Evidence(FOR, "PyTorch", ("name: Tesla T4",), 1)


def usage(machine: Machine = T4) -> Usage:
    made = Usage()
    made.machine = machine
    return made


def verdict(of: Usage, *evidence: Evidence, **variables: str) -> Verdict:
    return judge(of, evidence, variables, final=True)


def test_proven_needs_memory_and_work_of_own_processes() -> None:
    found = verdict(add(usage(), 60, Reading(0, 80, 5000, 60), own(memory=4300)))
    assert found.word == PROVEN
    assert found.text == (
        "its processes computed on a GPU: GPU 0 Tesla T4, peak 4.2 GiB, 80 % mean, 80 % p95, 48 s of GPU time, 1 Wh"
    )
    assert (found.gpu_seconds, found.energy, found.unseen) == (48, 1.0, ())


def test_work_of_other_processes_is_not_used() -> None:
    assert verdict(add(usage(), 60, Reading(0, 100, 9000, 70), other())).word == NOT_USED


def test_figures_cover_several_devices() -> None:
    of = usage()
    for _ in range(60):
        readings = (Reading(0, 90, 100, 50), Reading(1, 70, 100, 50))
        of.add(Sample((of.last or 1000) + 1, readings, (own(0, 1000), own(1, 2000))))
    found = verdict(of)
    assert found.word == PROVEN
    assert found.text.startswith(
        "its processes computed on 2 GPUs: GPUs 0,1 Tesla T4, peak 2.0 GiB each, 80 % mean, 90 % p95"
    )
    assert [each.number for each in found.devices] == [0, 1]


def test_memory_without_work_is_idle() -> None:
    found = verdict(add(usage(), 600, Reading(0, 0, 5000, 10), own()), CPU_BUILD)
    assert (found.word, found.cause) == (IDLE, "PyTorch is a CPU build")


def test_start_of_cuda_is_not_work() -> None:
    """As an NVIDIA H200 reported a script that created a matrix and then waited."""
    of = usage()
    for utilization_of_process in (22, 1, 0, 0, 0, 0, 0, 0):
        add(of, 1, Reading(0, 0, 544.8, 123, 40), own(memory=536, share=utilization_of_process))
    assert verdict(of).word == IDLE


def test_short_bursts_count_as_work() -> None:
    of = usage()
    for _ in range(20):
        add(of, 9, Reading(0, 0, 900, 10), own())
        add(of, 1, Reading(0, 100, 900, 70), own())
    assert verdict(of).word == PROVEN


@pytest.mark.parametrize(("seconds", "word"), [(1, PROVEN), (30, SHARED)])
def test_other_processes_make_the_verdict_shared(seconds: int, word: str) -> None:
    of = add(usage(), 60, Reading(0, 80, 900, 60), own())
    found = verdict(add(of, seconds, Reading(0, 80, 900, 60), own(), other()))
    assert found.word == word
    assert ("train (alice)" in found.text) is (word == SHARED)


def test_idle_run_beside_busy_process_is_not_proven() -> None:
    assert verdict(add(usage(), 60, Reading(0, 95, 900, 60), own(share=0), other(share=95))).word != PROVEN


@pytest.mark.parametrize(
    ("variables", "facts", "cause"),
    [
        ({"CUDA_VISIBLE_DEVICES": ""}, {}, "CUDA_VISIBLE_DEVICES is '', which hides every device"),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, {}, "CUDA_VISIBLE_DEVICES is '-1', which hides every device"),
        ({"CUDA_VISIBLE_DEVICES": "7"}, {}, "CUDA_VISIBLE_DEVICES is '7', but there is no such device"),
        ({"CUDA_VISIBLE_DEVICES": "0"}, {"visible": "-1"}, "CUDA_VISIBLE_DEVICES is '-1', which hides every device"),
        ({}, {"cuda": False}, "none of its processes loaded CUDA"),
        ({}, {"cuda": True}, "CUDA was loaded but no GPU was used"),
        ({}, {}, "none of its processes held GPU memory"),
    ],
)
def test_not_used_has_a_likely_cause(variables: dict[str, str], facts: dict[str, object], cause: str) -> None:
    of = add(usage(), 60, Reading(0, 0, 3, 10))
    of.facts = facts
    found = verdict(of, **variables)
    assert (found.word, cause in found.cause, cause in found.text) == (NOT_USED, True, True)


@pytest.mark.parametrize(("visible", "is_known"), [("0", True), ("1", False), ("100", False)])
def test_visible_devices_are_those_of_a_node(visible: str, is_known: bool) -> None:
    devices = tuple(Device(number, f"GPU-{number}", f"box{number // 100}: Tesla T4") for number in (100, 200))
    found = verdict(add(usage(Machine(devices)), 60, Reading(100, 0, 3, 10)), CUDA_VISIBLE_DEVICES=visible)
    assert ("there is no such device" in found.cause) is not is_known


def test_cause_on_an_amd_machine_names_its_platform() -> None:
    of = add(usage(T4._replace(source="amd-smi")), 60, Reading(0, 0, 3, 10))
    of.facts = {"cuda": False}
    assert "none of its processes loaded ROCm" in verdict(of).text
    assert "HIP_VISIBLE_DEVICES is '-1', which hides every device" in verdict(of, HIP_VISIBLE_DEVICES="-1").text


def test_log_message_explains_a_short_run() -> None:
    found = verdict(add(usage(), 1, Reading(0, 0)), CPU_BUILD)
    assert (found.word, found.cause) == (NOT_USED, "PyTorch is a CPU build")


def test_log_that_names_a_gpu_is_not_a_proof() -> None:
    found = verdict(add(usage(), 60, Reading(0, 90)), BLOCK)
    assert (found.word, found.text) == (UNKNOWN, "its log names a GPU, but none of its processes was observed on one")


@pytest.mark.parametrize("seconds", [0, 1])
def test_run_without_enough_samples_is_unknown(seconds: int) -> None:
    assert verdict(add(usage(), seconds, Reading(0, 0))).word == UNKNOWN


def test_short_use_without_work_is_unknown() -> None:
    assert verdict(add(usage(), 2, Reading(0, 0, 900), own())).word == UNKNOWN


def test_hidden_processes_make_the_verdict_unknown() -> None:
    of = add(usage(T4._replace(hides_processes=True)), 60, Reading(0, 0, 100))
    add(of, 60, Reading(0, 90, 2148))
    found = verdict(of)
    assert found.word == UNKNOWN
    assert "GPU 0 was at 45 % and its memory grew by 2.0 GiB" in found.text
    assert any("the host's process IDs are not visible in the container" in text for text in found.unseen)


def test_mig_slices_have_no_utilization() -> None:
    machine = Machine((Device(0, "GPU-a", "A100", 40960, 400, ("MIG-1",)),))
    found = verdict(add(usage(machine), 60, Reading(0, None, 5000, 200), own()))
    assert (found.word, "MIG is on" in found.text, found.devices[0].mean_utilization) == (UNKNOWN, True, None)


def test_gaps_in_the_observation_are_listed() -> None:
    of = add(usage(), 60, Reading(0, 80, 900), own(memory=None))
    of.note(1.0, "nvidia-smi does not answer")
    of.add(Sample(of.last + 120, (Reading(0, None, 900),), (own(memory=None),)))
    found = verdict(of)
    assert found.word == PROVEN
    assert found.unseen == (
        "nvidia-smi does not answer",
        "no samples for 119 s",
        "the driver does not report the memory of processes on GPU 0",
        "no utilization of GPU 0 for 1.0 s",
        "the driver does not report the power of GPU 0",
    )


def test_summary_fits_80_columns_without_repetition() -> None:
    of = add(usage(), 60, Reading(0, 80, 5000, 60), own(memory=4300))
    of.note(1.0, "nvidia-smi does not answer")
    assert summary(verdict(of)) == [
        "GPU proven: its processes computed on a GPU",
        "  GPU 0 Tesla T4, peak 4.2 GiB, 80 % mean, 80 % p95, 48 s of GPU",
        "  time, 1 Wh",
        "  incomplete: nvidia-smi does not answer",
    ]
    unused = verdict(add(usage(), 60, Reading(0, 0, 3, 10)))
    assert summary(unused) == ["GPU not used: none of its processes held GPU memory"]


NODES = T4._replace(
    devices=tuple(Device(number, f"GPU-{number}", f"box{1 + number // 100}: Tesla T4") for number in (0, 1, 100, 101))
)


def ranks(loads: dict[int, list[int]], seconds: int) -> Usage:
    """Return the totals of two machines: the loads of each GPU repeat; rank N holds memory of the Nth GPU."""
    of = usage(NODES)
    numbers = [device.number for device in NODES.devices]
    held = tuple(own(number)._replace(rank=numbers.index(number)) for number in loads)
    for second in range(seconds):
        now = {number: load[second % len(load)] for number, load in loads.items()}
        readings = tuple(Reading(number, now.get(number, 0)) for number in numbers)
        of.add(Sample((of.last or 1000.0) + 1, readings, held))
    return of


def test_given_gpus_that_did_not_compute_are_named() -> None:
    of = ranks({0: [90], 1: [90], 100: [90]}, 10)
    assert verdict(of).text.startswith("its processes computed on 3 GPUs: GPUs 0,1 on box1, GPU 0 on box2, Tesla T4, ")
    of.gives_all = True
    assert verdict(of).text.startswith("its processes computed on 3 of 4 GPUs, but not on GPU 1 on box2: ")
    of.machine = NODES._replace(hides_processes=True)  # other processes there may be those of the run
    assert "but not" not in verdict(of).text


def test_ranks_that_wait_are_named() -> None:
    busy, waits = [90], [90, 90, 90, 0, 0]
    text = verdict(ranks({0: busy, 1: busy, 100: busy, 101: waits}, 100)).text
    assert text.startswith("its processes computed on 4 GPUs; rank 3 idle 40 % of the time: ")
    text = verdict(ranks({0: waits, 1: waits, 100: waits, 101: waits}, 100)).text
    assert text.count("idle 40 % of the time") == 3
    assert "; 1 more GPU idle at least 20 % of the time: " in text
    assert "idle" not in verdict(ranks({0: busy, 101: waits}, 50)).text  # short runs mostly load their model


def test_verdict_survives_json() -> None:
    rank = own()._replace(rank=7)
    found = verdict(add(usage(), 60, Reading(0, 80, 900, 60, throttle=4, ecc=1), rank, other()), BLOCK)
    assert found.devices[0].ranks == (7,)
    assert from_json(json.loads(json.dumps(to_json(found)))) == found


@pytest.mark.parametrize(
    ("required", "state", "word", "expected"),
    [
        (True, RunState.COMPLETED, NOT_USED, RunState.FAILED),
        (True, RunState.COMPLETED, "", RunState.FAILED),
        (True, RunState.COMPLETED, PROVEN, RunState.COMPLETED),
        (True, RunState.COMPLETED, UNKNOWN, RunState.COMPLETED),
        (True, RunState.CANCELED, NOT_USED, RunState.CANCELED),
        (False, RunState.COMPLETED, NOT_USED, RunState.COMPLETED),
    ],
)
def test_require_gpu_fails_a_run_without_use(required: bool, state: str, word: str, expected: str) -> None:
    configuration = RunConfiguration("local", "/x", "local", require_gpu=required)
    ending = judged(configuration, Ending(state, (), 0, 5.0), word, "a cause")
    assert ending.state == expected
    if expected == RunState.FAILED:
        assert (ending.reason, ending.exit_code) == ("RequireGpu: it used no GPU; a cause", None)
