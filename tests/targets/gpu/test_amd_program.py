"""Queries for nvidia-smi, answered by stand-ins for amd-smi and rocm-smi (see standin_amd.py)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.gpu.standin_amd import AmdStandin, gpu
from tui_workbench.targets.gpu import amd_program
from tui_workbench.targets.gpu.smi_lines import DEVICE, READING

Ask = Callable[..., list[str]]

GIB = 1 << 30
FIRST, SECOND = (gpu(number)["uuid"] for number in (0, 1))


@pytest.fixture
def ask(capfd: pytest.CaptureFixture[str]) -> Ask:
    """A function that returns the lines of an answer; errors are the last line."""

    def lines(*words: str, tool: str = "amd-smi") -> list[str]:
        amd_program.main([tool, *words, "--format=csv,noheader,nounits"])
        out, err = capfd.readouterr()
        return [*out.splitlines(), *err.splitlines()]

    return lines


@pytest.mark.parametrize("is_old", [False, True], ids=["ROCm 7", "before ROCm 7"])
def test_amd_smi_values_are_those_of_nvidia_smi(amd: AmdStandin, ask: Ask, is_old: bool) -> None:
    amd.write(gpu(0, ecc=2), gpu(1, name="MI300A", throttle="THROTTLED"), old=is_old)
    assert ask(f"--query-gpu={','.join(DEVICE)}") == [
        f"0, {FIRST}, AMD Instinct MI300X, 196592, 750, 6.8.5, [N/A]",
        f"1, {SECOND}, AMD MI300A, 196592, 750, 6.8.5, [N/A]",
    ]
    assert ask(f"--query-gpu={','.join(READING)}") == [
        "0, 83, 4096, 512, 61, 2100, 1300, 0x0, 2",
        "1, 83, 4096, 512, 61, 2100, 1300, 0x8, 0",
    ]


def test_values_that_are_not_reported_are_left_out(amd: AmdStandin, ask: Ask) -> None:
    nothing = dict.fromkeys(("util", "mem", "power", "temp", "sm", "memclk"))
    amd.write(gpu(0, uuid="N/A", throttle="N/A", **nothing), without_e=["list", "metric"])
    assert ask(f"--query-gpu={','.join(READING)}") == [f"0{', [N/A]' * 8}"]
    assert ask("--query-gpu=uuid") == ["AMD-0"]


def test_partitions_have_their_own_utilization(amd: AmdStandin, ask: Ask) -> None:
    busy = [10 * part for part in range(8)]
    amd.write(*(gpu(0, partition=part, hip=part, util=35, units=busy) for part in range(8)))
    assert ask("--query-gpu=index,uuid,name")[7] == "7, AMD-7, AMD Instinct MI300X partition 7"
    assert ask("--query-gpu=utilization.gpu") == [str(value) for value in busy]


def test_processes_without_memory_are_left_out(amd: AmdStandin, ask: Ask) -> None:
    amd.write(gpu(0), gpu(1), processes={"0": [[4131, 5 * GIB], [4200, 0]], "1": [[4131, 0]]})
    query = "--query-compute-apps=gpu_uuid,used_memory,pid"
    assert ask(query) == [f"{FIRST}, 5120, 4131"]
    amd.install("rocm-smi")
    amd.write(gpu(0), gpu(1), processes={"1": [[4131, 5 * GIB], [4200, 0]]})
    assert ask(query, tool="rocm-smi") == [f"{SECOND}, 5120, 4131"]


def test_rocm_smi_values_are_those_of_nvidia_smi(amd: AmdStandin, ask: Ask) -> None:
    amd.install("rocm-smi")
    assert ask("--query-gpu=index,uuid,name,memory.total,driver_version", tool="rocm-smi") == [
        f"0, {FIRST}, AMD Instinct MI300X, 196592, 6.8.5"
    ]
    assert ask(f"--query-gpu={','.join(READING[:7])}", tool="rocm-smi") == ["0, 83, 4096, 512, 61, 2100, 1300"]


@pytest.mark.parametrize(
    ("said", "quoted"),
    [
        ("ERROR:root:Driver not loaded (amdgpu not found in modules)", None),
        ('{"error": "Command requires elevation. Error code: -10", "code": -10}', "Command requires elevation. Error"),
        ("[\n{]\n]", "[ {] ]"),
        ('[{"gpu": 0, "usage": {"gfx_busy_inst": 5}, "power": "N/A", "clock": []}]', "0, [N/A]"),
        ("", "amd-smi printed nothing"),
    ],
)
def test_output_without_values_is_quoted(amd: AmdStandin, ask: Ask, said: str, quoted: str | None) -> None:
    amd.write(say=said)
    (line,) = ask("--query-gpu=index,utilization.gpu")
    assert line.startswith(quoted or said)


def test_numbers_for_hip_are_listed(amd: AmdStandin, ask: Ask) -> None:
    amd.write(gpu(0, hip=1), gpu(1, hip=0))
    assert [line.rpartition(" ")[2] for line in ask("-L")] == ["1", "0"]
    amd.write(gpu(0, hip=1), gpu(1, hip=0), without_e=["list"])
    assert [line.rpartition(" ")[2] for line in ask("-L")] == ["0", "1"]
