"""Samples from the output of nvidia-smi. The program is a stand-in (see standin.py)."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import until
from tests.gpu.standin import REST, Standin, gpu, process
from tui_workbench.targets.gpu import smi
from tui_workbench.targets.gpu.sample import Note, Sample
from tui_workbench.targets.gpu.smi import Smi
from tui_workbench.targets.hosts.host import LocalHost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def opened(standin: Standin) -> Iterator[Callable[[], Smi]]:
    """A function that starts nvidia-smi on this machine; it is closed after the test."""
    made: list[Smi] = []

    def open_one() -> Smi:
        made.append(Smi(LocalHost()))
        return made[-1]

    yield open_one
    for one in made:
        one.close()


def sample_where(source: Smi, condition: Callable[[Sample], object]) -> Sample:
    """Return the first sample that meets the condition."""

    def found() -> Sample | None:
        samples = [thing for thing in source.look(1.0) if isinstance(thing, Sample)]
        return next((sample for sample in samples if condition(sample)), None)

    sample: Sample = until(found, "such a sample")
    return sample


def note_of(source: Smi) -> str:
    """Return the next note."""
    note: Note = until(lambda: next((each for each in source.look(1.0) if isinstance(each, Note)), None), "a note")
    return note.text


def test_smi_and_nvml_return_the_same(standin: Standin, opened: Callable[[], Smi]) -> None:
    standin.write(gpu(0, throttle=4), gpu(1, REST, power=None))
    source = opened()
    machine = source.machine()
    assert [(device.number, device.name, device.memory, device.power_limit) for device in machine.devices] == [
        (0, "Tesla T4", 15360, 70.0),
        (1, "Tesla T4", 15360, 70.0),
    ]
    assert (machine.driver, machine.cuda, machine.source, machine.problem) == ("550.54", "12.4", "nvidia-smi", "")
    first, second = sample_where(source, lambda sample: len(sample.readings) == 2).readings
    assert first == (0, 37, 1024, 61.2, 55, 1590, 5000, 4, 0)
    assert (second.device, second.power) == (1, None)


def test_processes_have_their_run_and_rank(standin: Standin, opened: Callable[[], Smi]) -> None:
    standin.write(gpu(0), gpu(1, REST))
    carrier = subprocess.Popen(["sleep", "60"], env={**os.environ, "WORKBENCH_RUN_ID": "of_test_smi_1", "RANK": "3"})
    try:
        standin.add(process(carrier.pid, 1, memory=512), process(1, 0, memory="-"))
        source = opened()
        source.machine()
        sample = sample_where(source, lambda sample: len(sample.processes) == 2)
    finally:
        carrier.kill()
        carrier.wait()
    found = {each.pid: each for each in sample.processes}
    assert (found[carrier.pid].run, found[carrier.pid].name, found[carrier.pid].device) == ("of_test_smi_1", "sleep", 1)
    assert (found[1].run, found[1].memory, found[1].device) == ("", None, 0)
    assert (found[carrier.pid].rank, found[1].rank) == (3, -1)


def test_ended_process_has_no_owner(standin: Standin, opened: Callable[[], Smi]) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    standin.write(gpu(0), process(ended.pid))
    source = opened()
    source.machine()
    (found,) = sample_where(source, lambda sample: sample.processes).processes
    assert (found.pid, found.user, found.run) == (ended.pid, "", "")


def test_missing_nvidia_smi_is_reported(monkeypatch: pytest.MonkeyPatch, opened: Callable[[], Smi]) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    machine = opened().machine()
    assert (machine.devices, machine.problem) == ((), "nvidia-smi not found")


def test_message_of_driver_without_devices_is_quoted(standin: Standin, opened: Callable[[], Smi]) -> None:
    standin.write()
    machine = opened().machine()
    assert (machine.devices, machine.problem) == ((), "No devices were found")


def test_cuda_version_in_another_form_is_read(
    standin: Standin, tmp_path: Path, opened: Callable[[], Smi], monkeypatch: pytest.MonkeyPatch
) -> None:
    standin.write(gpu(0))
    real = standin.built.programs / "nvidia-smi"
    (tmp_path / "nvidia-smi").write_text(f'#!/bin/sh\n{real} "$@" | sed "s/CUDA Version:/CUDA UMD Version :/"\n')
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert opened().machine().cuda == "12.4"


def test_message_of_failed_driver_is_quoted(standin: Standin, opened: Callable[[], Smi]) -> None:
    standin.remove()
    assert opened().machine().problem.startswith("NVIDIA-SMI has failed because")


def test_unknown_fields_are_dropped_or_renamed(
    standin: Standin, tmp_path: Path, opened: Callable[[], Smi], monkeypatch: pytest.MonkeyPatch
) -> None:
    standin.write(gpu(0, throttle=4))
    real = standin.built.programs / "nvidia-smi"
    old = tmp_path / "old"
    old.mkdir()
    (old / "nvidia-smi").write_text(
        "#!/bin/sh\n"
        "for field in mig.mode.current clocks_throttle_reasons.active ecc.errors.uncorrected.volatile.total; do\n"
        'case "$*" in *$field*) printf \'Field "%s" is not a valid field to query.\\n\\n\' $field; exit 2;; esac\n'
        "done\n"
        f'exec {real} "$@"\n'
    )
    (old / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{old}:{os.environ['PATH']}")
    source = opened()
    assert len(source.machine().devices) == 1
    (reading,) = sample_where(source, lambda sample: sample.readings).readings
    assert (reading.utilization, reading.throttle, reading.ecc) == (37, 4, None)


def test_hanging_nvidia_smi_is_noted_until_it_answers(
    standin: Standin, opened: Callable[[], Smi], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smi, "SILENCE_SECONDS", 1.5)
    standin.write(gpu(0))
    source = opened()
    source.machine()
    sample_where(source, lambda sample: sample.readings)
    standin.add("hang")
    assert note_of(source) == "nvidia-smi does not answer"
    standin.write(gpu(0, util=3))
    assert sample_where(source, lambda sample: sample.readings).readings[0].utilization == 3


def test_unexpected_output_is_quoted_once(standin: Standin, opened: Callable[[], Smi]) -> None:
    standin.write(gpu(0))
    source = opened()
    source.machine()
    sample_where(source, lambda sample: sample.readings)
    standin.write("fail Die GPU wurde nicht gefunden, bitte Neustart")
    assert note_of(source) == "Die GPU wurde nicht gefunden, bitte Neustart"


def test_lost_device_is_noted_and_omitted(standin: Standin, opened: Callable[[], Smi]) -> None:
    standin.write(gpu(0), gpu(1, REST))
    source = opened()
    source.machine()
    sample_where(source, lambda sample: len(sample.readings) == 2)
    standin.add("lost 1")
    assert note_of(source).startswith("GPU 1 stopped responding: 1, [GPU is lost]")
    sample = sample_where(source, lambda sample: len(sample.readings) == 1)
    assert sample.readings[0].device == 0


def test_close_ends_all_processes(standin: Standin, opened: Callable[[], Smi]) -> None:
    standin.write(gpu(0))
    source = opened()
    source.machine()
    sample_where(source, lambda sample: sample.readings)
    mark = f"STANDIN_NVML_STATE={standin.state}".encode()

    def running() -> list[int]:
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/cmdline", "rb") as words, open(f"/proc/{name}/environ", "rb") as variables:
                        if b"nvidia-smi" in words.read() and mark in variables.read():
                            found.append(int(name))
                except OSError:
                    continue
        return found

    assert running()
    source.close()
    until(lambda: not running(), "their end")
