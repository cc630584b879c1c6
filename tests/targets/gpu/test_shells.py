"""The scripts about GPUs work in every shell that is installed as `sh`. The tools of the vendors are stand-ins."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import until
from tests.gpu.standin import REST, Standin, gpu, process
from tests.runs.support import record_of
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.gpu.activity import facts_of, file_mark
from tui_workbench.targets.gpu.choice import query
from tui_workbench.targets.gpu.gpus import gpus_of
from tui_workbench.targets.gpu.job_samples import SAMPLER, JobSamples
from tui_workbench.targets.gpu.sample import Sample
from tui_workbench.targets.gpu.smi import Smi
from tui_workbench.targets.hosts.host import LocalHost

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.gpu.standin_amd import AmdStandin


@pytest.fixture(autouse=True)
def sh(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a shell as `sh` in this test."""
    monkeypatch.setenv("PATH", f"{os.path.dirname(shell)}:{os.environ['PATH']}")


@pytest.fixture
def of_run() -> Iterator[subprocess.Popen[bytes]]:
    """A process of a run and of its job."""
    child = subprocess.Popen(["env", "WORKBENCH_RUN_ID=exp_1", "RANK=1", "CUDA_VISIBLE_DEVICES=1", "sleep", "600"])
    yield child
    child.kill()
    child.wait()


def test_gpus_are_listed(standin: Standin) -> None:
    standin.write(gpu(0), gpu(1, REST, mem=900), process(os.getpid(), 1))
    found = gpus_of(LocalHost(), with_cuda=True)
    assert (found.text, found.cuda) == ("2 x Tesla T4 (15360 MiB), driver 550.54", "12.4")
    states, _ = query(LocalHost(), ComputeTarget("c", "", "local"))
    assert [(each.number, each.processes) for each in states] == [(0, 0), (1, 1)]


def test_gpus_of_amd_are_listed(amd: AmdStandin) -> None:
    found = gpus_of(LocalHost())
    assert (found.tool, len(found.listed)) == ("amd-smi", 1)


def test_gpus_are_watched(standin: Standin, of_run: subprocess.Popen[bytes]) -> None:
    standin.write(gpu(0), process(of_run.pid, 0))
    with contextlib.closing(Smi(LocalHost())) as source:
        assert [device.name for device in source.machine().devices] == ["Tesla T4"]
        samples = until(lambda: [each for each in source.look(1.0) if isinstance(each, Sample) and each.processes])
    assert [(each.run, each.rank) for each in samples[0].processes] == [("exp_1", 1)]


def test_job_samples_its_gpus(standin: Standin, tmp_path: Path) -> None:
    child = subprocess.Popen(["env", "SLURM_JOB_ID=12", "sleep", "600"])
    standin.write(gpu(0), gpu(1), process(child.pid, 1))
    job = {"CUDA_VISIBLE_DEVICES": "1", "SLURM_JOB_ID": "12", "SLURMD_NODENAME": "node1"}
    words = ["sh", "-c", SAMPLER, "sh", str(tmp_path), "exp_1"]
    sampler = subprocess.Popen(words, env={**os.environ, **job}, start_new_session=True)
    with JobSamples(str(tmp_path), lambda: False) as samples:
        found = until(lambda: [each for each in samples.read() if isinstance(each, Sample) and each.processes])
        assert [(each.device, each.run) for each in found[0].processes] == [(1, "exp_1")]
        os.killpg(sampler.pid, signal.SIGUSR1)  # as at the end of the run
        assert sampler.wait() == 0
    child.kill()
    child.wait()


def test_facts_of_processes_are_read(of_run: subprocess.Popen[bytes]) -> None:
    facts = until(lambda: facts_of(LocalHost(), "exp_1"), "the environment of the process")
    assert facts == {"cuda": False, "visible": "1"}


def test_changed_file_changes_the_mark(tmp_path: Path) -> None:
    directory = tmp_path / "project" / ".workbench" / "runs" / "p_1"
    (directory / "work" / "sub").mkdir(parents=True)
    spec = record_of(directory).spec
    before = file_mark(LocalHost(), spec)
    assert before == file_mark(LocalHost(), spec) != ""
    (directory / "work" / "sub" / "model.pt").touch()
    assert file_mark(LocalHost(), spec) != before
