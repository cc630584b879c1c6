"""Samples, choice, checks and containers on a machine with AMD GPUs. The tools are stand-ins (see standin_amd.py)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import until
from tests.gpu import frameworks as standins
from tests.gpu.standin_amd import AmdStandin, gpu
from tests.runs.support import as_anybody, let_everybody_in
from tests.targets.gpu.test_choice import numbers, spec, take
from tests.targets.gpu.test_job_samples import Job
from tests.targets.gpu.test_job_samples import job as job
from tui_workbench.config.checks.image_names import DEFAULT_AMD_IMAGE, is_gpu_image
from tui_workbench.core.model import ComputeTarget, RunConfiguration
from tui_workbench.runs.lifecycle import limits
from tui_workbench.targets.checks.result import BROKEN, OK, CheckFailed, CheckResult
from tui_workbench.targets.docker import container as containers
from tui_workbench.targets.docker.checks import EngineChecks
from tui_workbench.targets.docker.gpu_access import GpuAccess, gpu_access
from tui_workbench.targets.docker.placing import symbolic_placement
from tui_workbench.targets.gpu import choice, smi, vendors
from tui_workbench.targets.gpu.framework_location import spec_of
from tui_workbench.targets.gpu.sample import Note, Sample
from tui_workbench.targets.gpu.smi import Smi
from tui_workbench.targets.gpu.smi_lines import SmiLines
from tui_workbench.targets.gpu.vendors import AMD
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.registry import checks_for

if TYPE_CHECKING:
    from collections.abc import Iterator

GIB = 1 << 30


@pytest.fixture
def source(amd: AmdStandin, monkeypatch: pytest.MonkeyPatch) -> Iterator[Smi]:
    monkeypatch.setattr(smi, "SILENCE_SECONDS", 5.0)
    found = Smi(LocalHost())
    yield found
    found.close()


# Samples.


@pytest.mark.processes
def test_samples_have_readings_and_owners_of_processes(amd: AmdStandin, source: Smi) -> None:
    carrier = subprocess.Popen(["sleep", "60"], env={**os.environ, "WORKBENCH_RUN_ID": "of_test_amd_1"})
    try:
        amd.write(gpu(0), gpu(1, util=0), processes={"1": [[carrier.pid, GIB]]})
        machine = source.machine()
        sample: Sample = until(
            lambda: next((each for each in source.look(1.0) if isinstance(each, Sample) and each.processes), None),
            "a sample with a process",
        )
    finally:
        carrier.kill()
        carrier.wait()
    assert (machine.source, machine.driver, machine.cuda) == ("amd-smi", "6.8.5", "")
    assert [device.name for device in machine.devices] == ["AMD Instinct MI300X"] * 2
    assert sample.readings[0] == (0, 83, 4096, 512, 61, 2100, 1300, 0, 0)
    (process,) = sample.processes
    assert (process.device, process.memory, process.run) == (1, 1024, "of_test_amd_1")

    amd.write(gpu(0), gpu(1), hang=True)
    note: Note = until(lambda: next((each for each in source.look(1.0) if isinstance(each, Note)), None), "a note")
    assert note.text == "amd-smi does not answer"


def test_missing_tool_of_an_amd_driver_is_named() -> None:
    lines = SmiLines(time.time, time.monotonic)
    machine = lines.machine(["samd-smi", "mamd-smi: not found"])
    assert (machine.problem, machine.source) == ("amd-smi not found", "amd-smi")


@pytest.mark.processes
def test_job_of_slurm_samples_its_amd_gpus(job: Job, amd: AmdStandin, monkeypatch: pytest.MonkeyPatch) -> None:
    amd.write(gpu(0), gpu(1, util=40), processes={"1": [[os.getpid(), GIB]]})
    job.start(devices="1", variable="ROCR_VISIBLE_DEVICES")
    (sample,) = until(lambda: [each for each in job.read() if each.processes][:1], "a sample with a process")
    assert [(reading.device, reading.utilization) for reading in sample.readings] == [(1, 40)]
    assert job.samples.machine is not None
    assert job.samples.machine.source == "amd-smi"


# The choice of GPUs.


@pytest.mark.processes
def test_run_gets_the_numbers_of_hip(amd: AmdStandin, tmp_path: Path) -> None:
    amd.write(gpu(0, hip=2), gpu(1, hip=1, mem=300), gpu(2, hip=0, mem=300), processes={"1": [[1, GIB]]})
    gpus = take(spec(tmp_path, "free"))
    assert numbers(gpus) == [2]
    assert choice.variables(gpus, {}) == {"HIP_VISIBLE_DEVICES": "0"}
    assert choice.variables(gpus, {"ROCR_VISIBLE_DEVICES": "1"}) == {}
    named = take(spec(tmp_path, f"[0, {gpu(1)['uuid']}]", 2))
    assert choice.variables(named, {}) == {"HIP_VISIBLE_DEVICES": "2,1"}


def test_free_amd_gpus_limit_concurrent_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for node, number in enumerate(("0", "41230", "9921")):
        (tmp_path / str(node)).mkdir()
        (tmp_path / str(node) / "gpu_id").write_text(f"{number}\n")
    monkeypatch.setattr(limits, "GPUS", str(tmp_path / "none"))
    monkeypatch.setattr(limits, "AMD_GPUS", f"{tmp_path}/*/gpu_id")
    assert limits.limit_of(spec(tmp_path, "free").target) == 2


def test_container_gets_the_devices_and_their_groups(tmp_path: Path) -> None:
    run = spec(tmp_path, "free", kind="localdocker")
    place = symbolic_placement(LocalHost(), run)._replace(gpus=("2",), gpu_access=GpuAccess(AMD, ("44", "109")))
    made = containers.configuration(run, place)
    assert "DeviceRequests" not in made["HostConfig"]
    assert [each["PathOnHost"] for each in made["HostConfig"]["Devices"]] == ["/dev/kfd", "/dev/dri"]
    assert made["HostConfig"]["GroupAdd"] == ["44", "109"]
    assert "HIP_VISIBLE_DEVICES=2" in made["Cmd"] or "HIP_VISIBLE_DEVICES=2" in made["Env"]
    shown = " ".join(containers.docker_command(run, place))
    assert "--device /dev/kfd --device /dev/dri --group-add 44 --group-add 109" in shown


def test_engine_without_the_files_of_the_driver_is_refused(amd: AmdStandin, tmp_path: Path) -> None:
    assert gpu_access(LocalHost()).vendor is AMD
    checks = EngineChecks(spec(tmp_path, "all", kind="localdocker").target, LocalHost())
    if not os.path.exists("/dev/kfd"):
        with pytest.raises(CheckFailed, match="/dev/kfd or /dev/dri is missing, so containers get no GPU"):
            checks.runtime()


# The checks.


class Here:
    """This machine as a target with AMD GPUs, and stand-in frameworks."""

    def __init__(self, folder: Path) -> None:
        self.packages = folder / "packages"
        self.packages.mkdir()
        (folder / "aml_config").mkdir()
        python = folder / "python"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
        python.chmod(0o755)
        path = str(folder / "aml_config" / "here.compute")
        self.target = ComputeTarget("here", path, "local", python_location=str(python), gpus="all")

    def check(self, **variables: str) -> list[CheckResult]:
        own = {"PYTHONPATH": str(self.packages), **variables}
        path = str(Path(self.target.path).with_suffix(".runconfig"))
        configuration = RunConfiguration("here", path, "here", environment_variables=own)
        return list(checks_for(self.target).run_gpus(spec_of(self.target, configuration)))


@pytest.fixture
def here(tmp_path: Path, amd: AmdStandin, monkeypatch: pytest.MonkeyPatch) -> Here:
    device = tmp_path / "kfd"
    device.touch()
    monkeypatch.setattr(vendors, "KFD", str(device))
    return Here(tmp_path)


def test_build_for_rocm_computes(here: Here) -> None:
    standins.torch(here.packages, version="2.8.0+rocm6.4", cuda=None, hip="6.4.43482", architectures=("gfx942",))
    said = {result.name: result.message for result in here.check()}
    assert said["gpu driver"] == "amdgpu driver 6.8.5"
    assert said["gpus"] == "1 x AMD Instinct MI300X (196592 MiB)"
    assert said["framework"].startswith("PyTorch 2.8.0+rocm6.4 for ROCm 6.4.43482 in ")
    assert said["computes"] == "PyTorch sees 1 GPU; a matrix product on it was correct"


@pytest.mark.processes
def test_check_uses_the_named_gpus_of_a_run(here: Here, amd: AmdStandin, tmp_path: Path) -> None:
    amd.write(gpu(0, hip=1), gpu(1, hip=0))
    seen = tmp_path / "seen"
    standins.torch(here.packages, version="2.8.0+rocm6.4", cuda=None, hip="6.4.43482", architectures=("gfx942",))
    with (here.packages / "torch" / "__init__.py").open("a") as file:
        file.write(f"open({str(seen)!r}, 'w').write(os.environ['HIP_VISIBLE_DEVICES'])\n")
    here.target = here.target._replace(gpus=f"[{gpu(1)['uuid']}]")
    assert here.check()[-1].state == OK
    assert seen.read_text() == "0"
    here.target = here.target._replace(gpus="[2]")
    last = here.check()[-1]
    assert (last.name, last.state) == ("framework", BROKEN)
    assert last.message.startswith("gpus lists '2', but this machine has GPU 0 (")


@pytest.mark.parametrize(
    ("cuda", "message"),
    [
        ("", "PyTorch 2.8.0 is a CPU build: it trains on the CPU"),
        ("12.1", "PyTorch 2.8.0 for CUDA 12.1 is a build for NVIDIA GPUs, but the machine has AMD GPUs"),
    ],
)
def test_other_builds_are_refused_with_the_fix(here: Here, cuda: str, message: str) -> None:
    standins.torch(here.packages, version="2.8.0", cuda=cuda or None, capabilities=())
    last = here.check()[-1]
    assert (last.state, last.message) == (BROKEN, message)
    assert last.remedy == "Install a build for ROCm."
    assert last.command.endswith(" --force-reinstall torch --index-url https://download.pytorch.org/whl/rocm6.4")


def test_hidden_gpus_and_missing_device_are_refused(here: Here) -> None:
    (last,) = here.check(HIP_VISIBLE_DEVICES="-1")
    assert last.message == "HIP_VISIBLE_DEVICES is '-1' in here.runconfig, which hides every GPU"
    Path(vendors.KFD).unlink()
    (last,) = here.check()
    assert last.message == f"there is no {vendors.KFD}, so scripts cannot use the AMD GPUs"


def test_closed_device_is_refused_with_the_groups(here: Here, amd: AmdStandin, tmp_path: Path) -> None:
    def check() -> None:
        (last,) = here.check()
        assert last.message == (
            f"this user has no read and write permission for {vendors.KFD}, so scripts cannot use the AMD GPUs"
        )
        assert last.command == 'sudo usermod -a -G render,video "$LOGNAME"'

    # The interpreter of root's virtual environment may be in root's home.
    amd.install(python=shutil.which("python3", path=os.defpath) or sys.executable)
    Path(vendors.KFD).chmod(0)
    let_everybody_in(tmp_path, amd.programs)
    as_anybody(check)


def test_driver_that_does_not_work_is_refused(here: Here, amd: AmdStandin) -> None:
    amd.write(say="ERROR:root:Driver not loaded (amdgpu not found in modules)")
    (last,) = here.check()
    assert last.message.startswith("the AMD driver does not work: ERROR:root:Driver not loaded")
    assert last.command == "sudo modprobe amdgpu"


def test_image_of_amd_counts_as_an_image_for_gpus() -> None:
    assert is_gpu_image(DEFAULT_AMD_IMAGE) is True
