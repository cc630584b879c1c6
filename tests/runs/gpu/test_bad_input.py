"""Bad input: the remaining values are shown, and the verdict names the values that could not be observed.

The runs, processes and namespaces are real; drivers are stand-ins whose answers change during a run.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.support import Workbench, until
from tests.gpu.standin import REST, Standin, gpu
from tests.runs.gpu.test_recording import TRAIN, ended, run_directory, samples, until_sampled
from tests.targets.gpu.test_smi import sample_where
from tui_workbench.core.model import RunRequest
from tui_workbench.runs.gpu import recording, stall
from tui_workbench.runs.gpu.judging import fresh_verdict
from tui_workbench.runs.gpu.owners import Owners
from tui_workbench.runs.gpu.recording import Recorder
from tui_workbench.runs.gpu.usage import read_usage
from tui_workbench.runs.store.rundir import GPU_SAMPLES, RunDirectory
from tui_workbench.runs.submission.launch import create_run
from tui_workbench.runs.submission.planning import prepare
from tui_workbench.targets.gpu.sample import Process, Sample
from tui_workbench.targets.gpu.smi import Smi
from tui_workbench.targets.hosts.host import LocalHost, LocalProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui_workbench.projects.project import Project
    from tui_workbench.targets.hosts.host import HostProcess


@pytest.fixture
def workbench(project_root: Path, standin: Standin) -> Workbench:
    """Return a project whose script uses the first of two GPUs until the file in its argument exists."""
    standin.write(gpu(0), gpu(1, REST))
    (project_root / "train.py").write_text(TRAIN)
    return Workbench(project_root)


def say(standin: Standin, line: str) -> None:
    """Add a line to the state of the GPUs."""
    with standin.state.open("a") as state:
        state.write(f"{line}\n")


def finished(workbench: Workbench, run_id: str, done: Path) -> dict[str, Any]:
    """Let the script end, and return the verdict of the run."""
    done.touch()
    verdict: dict[str, Any] = ended(workbench, run_id)["gpu"]
    return verdict


def test_device_lost_during_a_run_is_reported(workbench: Workbench, standin: Standin, tmp_path: Path) -> None:
    run_id = workbench.detach("train.py", str(tmp_path / "done"))
    directory = run_directory(workbench, run_id)
    until_sampled(directory, 3)
    say(standin, "lost 0")
    say(standin, "xid 0 79")
    until(lambda: {reading[0] for reading in samples(directory)[-1]["d"]} == {1}, "a sample of the other device")
    verdict = finished(workbench, run_id, tmp_path / "done")
    assert verdict["verdict"] == "proven"
    assert verdict["devices"][0]["number"] == 0
    assert {"Xid 79 on an unknown GPU", "GPU 0 is lost: GPU is lost"} <= set(verdict["unseen"])


@pytest.mark.parametrize(
    ("device", "word", "unseen"),
    [
        (gpu(0, power=None, ecc=None, temp=None), "proven", "the driver does not report the power of GPU 0"),
        (gpu(0, mig=1, util=None), "unknown", ""),
    ],
    ids=["power", "mig"],
)
def test_unsupported_metric_is_reported(
    workbench: Workbench, standin: Standin, tmp_path: Path, device: str, word: str, unseen: str
) -> None:
    standin.write(device)
    run_id = workbench.detach("train.py", str(tmp_path / "done"))
    until_sampled(run_directory(workbench, run_id), 4)
    verdict = finished(workbench, run_id, tmp_path / "done")
    assert verdict["verdict"] == word
    assert verdict["devices"][0]["peak_memory"] == 900
    if word == "unknown":
        assert "the utilization is unknown (MIG is on)" in verdict["text"]
    assert unseen in verdict["unseen"] or not unseen


def test_driver_without_devices_does_not_affect_a_run(workbench: Workbench, standin: Standin, tmp_path: Path) -> None:
    standin.write()
    (tmp_path / "done").touch()
    assert workbench.submit("train.py", str(tmp_path / "done")).code == 0
    assert "gpu" not in workbench.info("1")


def test_driver_that_hangs_until_the_end_is_reported(
    project: Project, standin: Standin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict lists the end of the run as not observed."""
    monkeypatch.setattr(recording, "LONGEST_GAP", 0.5)
    monkeypatch.setattr(recording, "SUM_EVERY", 1)
    monkeypatch.setattr(stall, "LONGEST_SILENCE", 0.0)
    standin.write(gpu(0))
    directory, lock, record = create_run(project, RunRequest("local", "hello.py"))
    stalls: list[str] = []
    # The run never starts.
    recorder = Recorder(directory, record, print, print, lambda: stalls.append(directory.run_id))
    try:
        until(lambda: (found := read_usage(directory.file(GPU_SAMPLES))) and found.samples >= 2, "two samples")
        sampler = next(pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_sampler(pid))
        os.kill(sampler, signal.SIGSTOP)
        try:
            until(
                lambda: (found := read_usage(directory.file(GPU_SAMPLES))) and time.time() - found.last > 4.0, "silence"
            )
            recorder.stop()
            until(lambda: _hung_at_the_end(directory), "the verdict that lists the silence")
            assert stalls == [directory.run_id]  # reported once, not after each sample
        finally:
            os.kill(sampler, signal.SIGCONT)
    finally:
        recorder.stop()
        lock.release()


def _hung_at_the_end(directory: RunDirectory) -> bool:
    verdict = fresh_verdict(directory.path, {}, final=True)
    return verdict is not None and any("reported nothing in the last" in text for text in verdict.unseen)


def _is_sampler(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        variables = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return b"gpu.sampler" in words and os.environ["STANDIN_NVML_STATE"].encode() in variables


def test_just_ended_process_belongs_to_the_run(project: Project) -> None:
    """The driver may list it for a moment longer, without an owner."""
    spec = prepare(project, RunRequest("local", "hello.py")).spec
    owners = Owners(spec)
    both = (Process(11, 0, 900, run=spec.run_id, user="me"), Process(12, 0, 900, run=spec.run_id, user="me"))
    assert [process.user for process in owners.seen(Sample(1000.0, (), both)).processes] == ["own", "own"]
    later = owners.seen(Sample(1001.0, (), (Process(12, 0, 900), Process(13, 0, 900))))
    assert [process.user for process in later.processes] == ["own", ""]


# A separate PID namespace, as in a container.


class Inside(LocalHost):
    """This machine in a new PID namespace."""

    def open(self, argv: Sequence[str], *, timeout: float = 30.0) -> HostProcess:
        return LocalProcess(["unshare", "--pid", "--fork", "--mount-proc", *argv])


@pytest.fixture
def inside() -> Inside:
    if not shutil.which("unshare") or Inside().run(["true"]).code != 0:
        pytest.skip("PID namespaces are not available")
    return Inside()


def test_smi_in_a_pid_namespace_hides_processes(standin: Standin, inside: Inside) -> None:
    standin.write(gpu(0), "proc 0 4000000 900 35 C")
    source = Smi(inside)
    try:
        assert source.machine().hides_processes
        sample = sample_where(source, lambda sample: sample.processes)
        assert (sample.readings[0].utilization, sample.processes[0].user) == (37, "")
    finally:
        source.close()


def test_nvml_in_a_pid_namespace_hides_processes(inside: Inside) -> None:
    program = "from tui_workbench.targets.gpu.nvml import hides_processes; print(hides_processes())"
    done = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        check=True,
    )
    assert done.stdout == b"True\n"
