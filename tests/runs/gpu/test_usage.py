"""Totals of samples, which do not depend on where reading starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runs.gpu.samples import START, samples
from tui_workbench.runs.gpu.usage import (
    OWN,
    Usage,
    attempt_line,
    facts_line,
    own_processes,
    read_attempt,
    read_usage,
    sum_line,
)
from tui_workbench.runs.store.rundir import GPU_SAMPLES
from tui_workbench.targets.gpu.sample import Device, Machine, Note, Process, Reading, Sample, encode

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = (Device(number, f"GPU-{number}", "Tesla T4", 15360, 70) for number in (0, 1))
T4 = Machine((FIRST, SECOND), "550", "12.4", "nvml")


def own(device: int = 0, memory: float | None = 900, share: float | None = None) -> Process:
    return Process(7, device, memory, share, OWN, "python")


def other(device: int = 0, share: float | None = None, *, graphics: bool = False) -> Process:
    return Process(8, device, 500, share, "alice", "train", graphics=graphics)


def add(usage: Usage, seconds: int, reading: Reading, *processes: Process) -> Usage:
    """Add the same sample for this number of seconds."""
    for _ in range(seconds):
        usage.add(Sample((usage.last or 1000.0) + 1, (reading,), processes))
    return usage


def test_totals_cover_the_time_on_the_device() -> None:
    usage = add(Usage(), 10, Reading(0, 90, 5000, 70))
    add(usage, 20, Reading(0, 50, 1000, 36), own(memory=800))
    add(usage, 10, Reading(0, 100, 2000, 72), own(memory=1800), own(memory=100))
    use = usage.devices[0]
    assert use.held == pytest.approx(30)
    assert use.gpu_seconds == pytest.approx(20)
    assert use.energy == pytest.approx(20 * 36 + 10 * 72)
    assert use.peak == 1900
    assert use.mean_utilization == pytest.approx(100 * 20 / 30)
    assert (use.quantile(0.5), use.quantile(0.95)) == (50, 100)


def test_cuda_of_one_machine_counts_for_all() -> None:
    usage = Usage()
    for facts in ({"cuda": True}, {"cuda": False, "visible": "0"}):
        usage.add_line(facts_line(facts))
    assert usage.facts == {"cuda": True, "visible": "0"}


def test_time_without_samples_is_not_counted() -> None:
    usage = add(Usage(), 5, Reading(0, 100), own())
    usage.add(Sample(usage.last + 3600, (Reading(0, 100),), (own(),)))
    assert usage.devices[0].held == pytest.approx(6)
    assert usage.unseen == pytest.approx(3599)


def test_time_between_attempts_is_not_part_of_the_run() -> None:
    usage = add(Usage(), 5, Reading(0, 100), own())
    usage.begin_attempt(2)
    usage.add(Sample(usage.last + 3600, (Reading(0, 100),), (own(),)))
    assert usage.devices[0].held == pytest.approx(6)
    assert usage.devices[0].watched == pytest.approx(6)
    assert usage.unseen == 0


def test_samples_of_one_attempt_are_read_alone(tmp_path: Path) -> None:
    path = tmp_path / GPU_SAMPLES
    lines = [encode(T4)]
    lines += [encode(Sample(1000.0 + second, (Reading(0, 100),), (own(),))) for second in range(5)]
    lines += [attempt_line(2)]
    lines += [encode(Sample(5000.0 + second, (Reading(0, 0),), (own(),))) for second in range(3)]
    path.write_bytes(b"".join(lines))
    first, second = read_attempt(str(path), 1), read_attempt(str(path), 2)
    assert first is not None
    assert second is not None
    assert (first.samples, second.samples) == (5, 3)
    assert first.devices[0].gpu_seconds == pytest.approx(5)
    assert second.devices[0].held == pytest.approx(3)
    assert second.devices[0].gpu_seconds == 0
    assert second.machine == T4
    assert read_attempt(str(path), 3) is None


def test_first_attempt_is_read_from_its_last_totals(tmp_path: Path) -> None:
    """The file is read as if it were long: without the samples that the totals contain."""
    path = tmp_path / GPU_SAMPLES
    usage = add(Usage(), 5, Reading(0, 100), own())
    usage.machine, usage.gives_all = T4, True
    lines = [sum_line(usage)]
    lines += [encode(Sample(usage.last + second, (Reading(0, 100),), (own(),))) for second in (1, 2)]
    add(usage, 2, Reading(0, 100), own())
    usage.begin_attempt(2)
    lines += [attempt_line(2)]
    add(usage, 3, Reading(0, 0), own())
    lines += [encode(Sample(usage.last - second, (Reading(0, 0),), (own(),))) for second in (2, 1, 0)]
    lines += [sum_line(usage), attempt_line(3)]
    path.write_bytes(b"".join(lines))
    first, second = read_attempt(str(path), 1), read_attempt(str(path), 2)
    assert first is not None
    assert second is not None
    assert (first.samples, first.attempt, second.samples, second.attempt) == (7, 1, 3, 2)
    assert (first.machine, first.gives_all, second.gives_all) == (T4, True, True)
    assert first.devices[0].gpu_seconds == pytest.approx(7)
    assert second.devices[0].held == pytest.approx(3)
    assert second.devices[0].gpu_seconds == 0
    assert read_attempt(str(path), 3) is None


def test_later_attempt_is_read_from_its_last_totals(tmp_path: Path) -> None:
    path = tmp_path / GPU_SAMPLES
    usage = add(Usage(), 5, Reading(0, 100), own(memory=900))
    usage.begin_attempt(2)
    usage.begin_attempt(3)
    add(usage, 4, Reading(0, 50), own(memory=700))
    path.write_bytes(
        attempt_line(2)
        + attempt_line(3)
        + sum_line(usage)
        + encode(Sample(usage.last + 1, (Reading(0, 50),), (own(memory=800),)))
    )
    assert read_attempt(str(path), 2) is None
    third = read_attempt(str(path), 3)
    assert third is not None
    assert (third.samples, third.attempt, third.devices[0].peak) == (5, 3, 800)
    assert third.devices[0].gpu_seconds == pytest.approx(2.5)


def test_invalid_totals_of_an_attempt_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / GPU_SAMPLES
    sample = encode(Sample(1000.0, (Reading(0, 100),), (own(),)))
    path.write_bytes(sample + b'{"sum":{}}\n{"attempt":"x"}\n' + sample + attempt_line(2) + sample)
    first, second = read_attempt(str(path), 1), read_attempt(str(path), 2)
    assert first is not None
    assert second is not None
    assert (first.samples, second.samples) == (2, 1)


def test_attempt_is_kept_in_the_totals() -> None:
    usage = Usage()
    usage.begin_attempt(4)
    assert Usage.from_json(usage.to_json()).attempt == 4


def test_clock_set_back_changes_no_totals() -> None:
    usage = add(Usage(), 5, Reading(0, 100), own())
    usage.add(Sample(usage.last - 100, (Reading(0, 100),), (own(),)))
    assert usage.devices[0].held == pytest.approx(5)


def test_missing_values_do_not_count_as_zero() -> None:
    use = add(Usage(), 5, Reading(0), own(memory=None)).devices[0]
    assert (use.untold, use.mean_utilization, use.peak, use.quantile(0.95)) == (5, None, None, None)


def test_other_processes_are_named_if_they_compute() -> None:
    usage = add(Usage(), 4, Reading(0, 50), own(), other(graphics=True))
    add(usage, 3, Reading(0, 50), own(), other(share=0))
    assert usage.devices[0].shared == 0
    add(usage, 2, Reading(0, 50), own(), other())
    assert usage.devices[0].shared == pytest.approx(2)
    assert usage.devices[0].others == ["train (alice)"]


def test_reported_share_decides_about_work() -> None:
    use = add(Usage(), 10, Reading(0, 90), own(share=0), other(share=90)).devices[0]
    assert (use.busy, use.own_known, use.own_seconds) == (0, 10, 0)


READINGS = st.builds(
    Reading,
    st.integers(0, 2),
    st.none() | st.integers(0, 100),
    st.none() | st.integers(0, 80000),
    st.none() | st.floats(0, 700).map(lambda value: round(value, 1)),
    throttle=st.none() | st.integers(0, 0x1FF),
    ecc=st.none() | st.integers(0, 9),
)
PROCESSES = st.builds(
    Process,
    st.integers(1, 9),
    st.integers(0, 2),
    st.none() | st.integers(0, 80000),
    st.none() | st.integers(0, 100),
    user=st.sampled_from([OWN, "alice", "run_2"]),
    name=st.sampled_from(["python", "Ünï\x1b[2J"]),
    graphics=st.booleans(),
    session=st.integers(0, 1 << 31),
    rank=st.integers(-1, 10**9 - 1),
)
SAMPLES = st.lists(
    st.tuples(st.integers(1, 8), st.lists(READINGS, max_size=3, unique_by=lambda each: each.device),
              st.lists(PROCESSES, max_size=3)),
    max_size=20,
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=60)
@given(SAMPLES, st.integers(0, 20))
def test_totals_in_the_file_replace_earlier_lines(
    tmp_path_factory: pytest.TempPathFactory, samples: list[tuple[int, list[Reading], list[Process]]], place: int
) -> None:
    path = tmp_path_factory.mktemp("usage") / "gpu.jsonl"
    usage = Usage()
    usage.machine = T4
    lines, time = [encode(T4)], 1000.0
    for number, (pause, readings, processes) in enumerate(samples):
        time += pause
        sample = Sample(time, tuple(readings), tuple(processes))
        usage.add(sample)
        lines.append(encode(sample))
        if number == place:
            lines.append(sum_line(usage))
    path.write_bytes(b"".join(lines))
    shortened = read_usage(str(path))
    path.write_bytes(b"".join(line for line in lines if not line.startswith(b'{"sum"')))
    whole = read_usage(str(path))
    assert shortened is not None
    assert whole is not None
    assert whole.to_json() == usage.to_json()
    assert shortened.samples == usage.samples
    for number, use in usage.devices.items():
        assert shortened.devices[number].held == pytest.approx(use.held, abs=0.1)
        assert shortened.devices[number].energy == pytest.approx(use.energy, abs=0.1)


def test_invalid_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "gpu.jsonl"
    good = encode(Sample(1.0, (Reading(0, 50),), (Process(7, 0, 5.0, user=OWN),)))
    note = encode(Note(2.0, "nvidia-smi does not answer"))
    path.write_bytes(encode(T4) + good + b'{"d":"","t":1,"p":[[]]}\n{"sum":{}}\n[]\n\xff\xfe\n\n' + note + good[:20])
    usage = read_usage(str(path))
    assert usage is not None
    assert (usage.samples, usage.devices[0].peak, usage.machine) == (1, 5.0, T4)
    assert usage.notes == [(2.0, "nvidia-smi does not answer")]


def test_long_file_is_read_from_its_end(tmp_path: Path) -> None:
    path = tmp_path / "gpu.jsonl"
    usage = add(Usage(), 100, Reading(0, 50), own())
    with path.open("wb") as file:
        file.write(b'{"no":"sample"}\n' * 200_000)
        file.write(sum_line(usage))
        file.write(encode(Sample(usage.last + 1, (Reading(0, 50),), (Process(7, 0, user=OWN),))))
    found = read_usage(str(path))
    assert found is not None
    assert found.samples == 101
    assert found.devices[0].held == pytest.approx(101)


def test_missing_file_has_no_usage(tmp_path: Path) -> None:
    assert read_usage(str(tmp_path / "gpu.jsonl")) is None


# The processes of a run on GPUs in the last sample.


def holders(folder: Path, data: bytes) -> frozenset[int]:
    (folder / GPU_SAMPLES).write_bytes(data)
    return own_processes(str(folder))


def test_own_processes_are_from_the_last_sample(tmp_path: Path) -> None:
    processes = tuple(Process(pid, 0, user=user) for pid, user in ((11, OWN), (12, "alice"), (13, OWN)))
    last = encode(Sample(START + 9, (Reading(0),), processes))
    assert holders(tmp_path, samples([1]) + last) == {11, 13}


def test_totals_and_incomplete_line_are_skipped(tmp_path: Path) -> None:
    assert holders(tmp_path, samples([1]) + sum_line(Usage()) + b'{"t":1,"d":[') == {4242}


def test_run_that_left_the_gpu_has_no_processes(tmp_path: Path) -> None:
    assert holders(tmp_path, samples([1]) + encode(Sample(START + 9, (Reading(0),)))) == frozenset()


def test_invalid_samples_have_no_processes(tmp_path: Path) -> None:
    assert own_processes(str(tmp_path)) == frozenset()
    assert holders(tmp_path, b'{"d":[],"p":[7]}\n[]\n\xff\n') == frozenset()


def test_hole_in_the_samples_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / GPU_SAMPLES
    with path.open("wb") as file:
        file.write(encode(T4) + encode(Sample(START, (Reading(0, 90),))))
        file.seek(1 << 40)
        file.write(b"\n" + attempt_line(2) + encode(Sample(START + 60, (Reading(0, 90),))))
    second = read_attempt(str(path), 2)
    assert second is not None
    assert second.samples == 1
