"""Samples from NVML's answers. The library is a stand-in (see standin.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.gpu.standin import REST, Standin, gpu, process
from tui_workbench.targets.gpu.sample import Device, Note, Reading, Sample, decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterator


# The library is looked up when a process starts, so a separate process makes the queries, one per line.
_SERVER = """\
import sys
from tui_workbench.targets.gpu.nvml import NoLibrary, Nvml
from tui_workbench.targets.gpu.sample import encode
try:
    nvml = Nvml()
except NoLibrary:
    print("none", flush=True)
    sys.exit()
for line in sys.stdin:
    told = [nvml.machine()] if line == "machine\\n" else nvml.look()
    sys.stdout.buffer.write(b"".join(map(encode, told)) + b"\\n")
    sys.stdout.flush()
"""


class Asked:
    """NVML in a separate process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert self.process.stdin
        assert self.process.stdout
        self._ask, self._answer = self.process.stdin, self.process.stdout

    def tell(self, question: str) -> list[object]:
        self._ask.write(f"{question}\n".encode())
        return [decode(line) for line in iter(self._answer.readline, b"\n")]

    def machine(self) -> object:
        (machine,) = self.tell("machine")
        return machine

    def sample(self) -> Sample:
        sample = self.tell("look")[-1]
        assert isinstance(sample, Sample)
        return sample

    def close(self) -> None:
        self._ask.close()
        self.process.wait()
        self._answer.close()


@pytest.fixture
def nvml(standin: Standin) -> Iterator[Asked]:
    standin.write(gpu(0), gpu(1, REST))
    asked = Asked()
    yield asked
    asked.close()


def test_machine_has_driver_and_devices(nvml: Asked) -> None:
    machine = nvml.machine()
    assert machine._replace(hides_processes=False) == (  # type: ignore[attr-defined]
        (
            Device(0, "GPU-00000000-0000-0000-0000-000000000000", "Tesla T4", 15360, 70.0),
            Device(1, "GPU-00000001-0000-0000-0000-000000000000", "Tesla T4", 15360, 70.0),
        ),
        "550.54",
        "12.4",
        "nvml",
        "",
        False,
    )


def test_sample_has_every_metric(nvml: Asked, standin: Standin) -> None:
    nvml.machine()
    assert nvml.sample().readings[0] == Reading(0, 37, 1024, 61.2, 55, 1590, 5000, 0, 0)
    standin.write(gpu(0, util=91, power=68000, throttle=4, ecc=2), gpu(1, REST))
    reading = nvml.sample().readings[0]
    assert (reading.utilization, reading.power, reading.throttled_by, reading.ecc) == (91, 68.0, ("power cap",), 2)


def test_processes_have_memory_share_and_owner(nvml: Asked, standin: Standin) -> None:
    nvml.machine()
    standin.add(process(os.getpid(), memory=900, share=35), process(1, memory="-", kind="G"))
    other, own = sorted(nvml.sample().processes)
    assert (own.memory, own.utilization, own.graphics, own.session) == (900, 35, False, os.getsid(0))
    assert own.name
    assert own.user
    assert (other.pid, other.memory, other.graphics) == (1, None, True)


def test_missing_values_do_not_affect_others(nvml: Asked, standin: Standin) -> None:
    standin.write(gpu(0, power=None, ecc=None, temp=None, util=None))
    nvml.machine()
    (reading,) = nvml.sample().readings
    assert (reading.power, reading.ecc, reading.temperature, reading.utilization) == (None, None, None, None)
    assert (reading.memory, reading.sm_clock) == (1024, 1590)


def test_memory_that_the_driver_reserves_is_not_used(nvml: Asked, standin: Standin) -> None:
    nvml.machine()
    standin.write(gpu(0, mem=1024), gpu(1, REST, oldmem=1))
    assert [reading.memory for reading in nvml.sample().readings] == [1024, 603]


def test_lost_device_is_noted_once(nvml: Asked, standin: Standin) -> None:
    nvml.machine()
    standin.add("lost 1", "xid 0 13", "xid 1 79")
    told = nvml.tell("look")
    assert [note.text for note in told if isinstance(note, Note)] == [
        "Xid 13 on GPU 0",
        "Xid 79 on an unknown GPU",
        "GPU 1 is lost: GPU is lost",
    ]
    for sample in (told[-1], nvml.sample()):
        assert isinstance(sample, Sample)
        assert [reading.device for reading in sample.readings] == [0]


def test_driver_without_devices_is_reported(nvml: Asked, standin: Standin) -> None:
    standin.write()
    machine = nvml.machine()
    assert (machine.devices, machine.problem) == ((), "the NVIDIA driver lists no GPU")  # type: ignore[attr-defined]


def test_driver_that_does_not_answer_is_reported(standin: Standin) -> None:
    standin.remove()
    asked = Asked()
    machine = asked.machine()
    asked.close()
    assert machine.problem == "the NVIDIA driver does not work: Driver Not Loaded"  # type: ignore[attr-defined]


def test_missing_library_raises_no_library(standin: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    asked = Asked()
    answer = asked.process.stdout
    assert answer
    assert answer.read() == b"none\n"
    asked.close()


def test_mig_slices_are_named(nvml: Asked, standin: Standin) -> None:
    standin.write(gpu(0, mig=1, util=None))
    machine = nvml.machine()
    assert machine.devices[0].slices == ("MIG",)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b'{"d":1}', b'{"t":"x","d":[]}', b'{"machine":{"devices":[{}]}}', b"\xff"]
)
def test_invalid_line_is_skipped(line: bytes) -> None:
    assert decode(line) is None


def test_sample_survives_json() -> None:
    from tui_workbench.targets.gpu.sample import Process

    sample = Sample(
        1.25,
        (Reading(0, 0, 0.0, None, 0, None, None, 0, 0), Reading(3)),
        (Process(7, 0, 5.5, 0, "me", "python", "run", "box", 9, True), Process(8, 3)),
    )
    assert decode(encode(sample)) == sample
