"""GPU samples of a job, taken by its script. nvidia-smi is a stand-in (see standin.py)."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import until
from tests.gpu.standin import REST, Standin, gpu, process
from tui_workbench.targets.gpu.job_samples import SAMPLER, JobSamples
from tui_workbench.targets.gpu.sample import Machine, Note, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = """\
h{count} {name}
v0
Fmindex,uuid,name,memory.total,power.limit,driver_version,mig.mode.current
m0, GPU-{name}, A100, 40960, 400.00, 550.54, [N/A]
Fgtimestamp,index,utilization.gpu,memory.used
Fptimestamp,gpu_uuid,used_memory,pid
c12.4
npid:[4026531836]
.
"""


class Job:
    """The nodes of a job in this machine's processes."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.is_over = False
        self.samples = JobSamples(str(run), lambda: self.is_over)
        self.found: list[Machine | Sample | Note] = []
        self._nodes: list[subprocess.Popen[bytes]] = []

    def start(
        self, *, devices: str = "0", node: int = 0, count: int = 1, variable: str = "CUDA_VISIBLE_DEVICES"
    ) -> subprocess.Popen[bytes]:
        """Start the script on a node."""
        variables = {
            variable: devices,
            "SLURM_JOB_ID": "12",
            "SLURM_NODEID": str(node),
            "SLURM_JOB_NUM_NODES": str(count),
            "SLURMD_NODENAME": f"node{node + 1}",
        }
        self._nodes.append(
            subprocess.Popen(
                ["sh", "-c", SAMPLER, "sh", str(self.run), "exp_1"],
                env={**os.environ, **variables},
                start_new_session=True,
            )
        )
        return self._nodes[-1]

    def write(self, node: int, text: str) -> None:
        """Append lines to the file of a node."""
        (self.run / "gpu").mkdir(exist_ok=True)
        with (self.run / "gpu" / str(node)).open("a") as file:
            file.write(text)

    def read(self) -> list[Sample]:
        """Read new records, and return all samples so far."""
        self.found += self.samples.read()
        return [record for record in self.found if isinstance(record, Sample)]

    def close(self) -> None:
        self.samples.close()
        for node in self._nodes:
            if node.poll() is None:
                os.killpg(node.pid, signal.SIGKILL)
            node.wait()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path)
    yield job
    job.close()


def test_samples_have_the_gpus_and_processes_of_the_job(job: Job, standin: Standin) -> None:
    standin.write(gpu(0, REST), gpu(1, util=80), process(1, 0), process(os.getpid(), 1, memory=700))
    job.start(devices="1")
    (sample,) = until(lambda: [each for each in job.read() if each.processes][:1], "a sample with a process")
    assert [(reading.device, reading.utilization) for reading in sample.readings] == [(1, 80)]
    assert [(each.device, each.pid, each.memory) for each in sample.processes] == [(1, os.getpid(), 700)]
    assert job.samples.machine is not None
    assert [device.name for device in job.samples.machine.devices] == ["Tesla T4"]


@pytest.mark.parametrize("variable", ["WORKBENCH_RUN_ID=exp_1", "SLURM_JOB_ID=12"])
def test_processes_of_the_job_belong_to_the_run(job: Job, standin: Standin, variable: str) -> None:
    standin.write(gpu(0))
    job.start()
    child = subprocess.Popen(["env", variable, "sleep", "60"])
    try:
        standin.add(process(child.pid))
        until(lambda: any(each.run == "exp_1" for sample in job.read() for each in sample.processes), "its owner")
    finally:
        child.kill()
        child.wait()


def test_job_without_gpu_has_a_machine_without_devices(job: Job, standin: Standin) -> None:
    standin.write(gpu(0))
    assert job.start(devices="").wait() == 0
    assert job.read() == []
    assert job.samples.machine is not None
    assert (job.samples.machine.devices, job.samples.machine.problem) == ((), "the job has no GPU")


def test_signal_of_the_batch_script_ends_the_sampler(job: Job, standin: Standin) -> None:
    standin.write(gpu(0))
    node = job.start()
    until(job.read, "samples")
    os.killpg(node.pid, signal.SIGTERM)
    count = len(job.read())
    until(lambda: len(job.read()) > count + 1, "samples after the warning of the time limit")
    os.killpg(node.pid, signal.SIGUSR1)
    assert node.wait() == 0
    until(lambda: not _group(node.pid), "the end of its processes")


def _group(number: int) -> list[str]:
    """Return the processes of a group."""
    listed = subprocess.run(["ps", "-eo", "pgid=,stat=,args="], capture_output=True, text=True, check=True).stdout
    rows = (line.split(None, 2) for line in listed.splitlines())
    return [row[-1] for row in rows if row[0] == str(number) and not row[1].startswith("Z")]


def test_unknown_fields_are_dropped_or_renamed(
    job: Job, standin: Standin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standin.write(gpu(0, throttle=4))
    old = tmp_path / "old"
    old.mkdir()
    (old / "nvidia-smi").write_text(
        "#!/bin/sh\n"
        "for field in mig.mode.current clocks_throttle_reasons.active ecc.errors.uncorrected.volatile.total; do\n"
        'case "$*" in *$field*) printf \'Field "%s" is not a valid field to query.\\n\\n\' $field; exit 2;; esac\n'
        "done\n"
        f'exec {standin.built.programs / "nvidia-smi"} "$@"\n'
    )
    (old / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{old}:{os.environ['PATH']}")
    job.start()
    (reading,) = until(job.read, "samples")[0].readings
    assert (reading.utilization, reading.throttle, reading.ecc) == (37, 4, None)


def test_nodes_have_separate_devices_in_common_samples(job: Job) -> None:
    for node in (0, 1):
        job.write(node, HEADER.format(count=2, name=f"node{node + 1}"))
        for second in range(3):
            job.write(node, f"g2026/11/23 14:00:0{second}.{node}00, 0, {50 + node}, 1000\n")
    job.is_over = True
    samples = job.read()
    assert job.samples.machine is not None
    assert [(device.number, device.name) for device in job.samples.machine.devices] == [
        (0, "node1: A100"),
        (100, "node2: A100"),
    ]
    assert [[(each.device, each.utilization) for each in sample.readings] for sample in samples] == [
        [(0, 50), (100, 51)]
    ] * 3


def test_samples_of_a_node_wait_for_those_of_others(job: Job) -> None:
    for node in (0, 1):
        job.write(node, HEADER.format(count=2, name=f"node{node + 1}"))
    job.write(0, "g2026/11/23 14:00:00.000, 0, 50, 1000\n")
    assert job.read() == []
    job.write(1, "g2026/11/23 14:00:00.100, 0, 51, 1000\n")
    assert len(job.read()) == 1


def test_hanging_nvidia_smi_is_noted(job: Job) -> None:
    job.write(0, HEADER.format(count=1, name="node1"))
    job.write(0, "g2026/11/23 14:00:00.000, 0, 50, 1000\nt1795442401\nt1795442415\nt1795442425\n")
    job.read()
    assert [record.text for record in job.found if isinstance(record, Note)] == ["nvidia-smi does not answer"]


def test_facts_explain_a_run_without_a_gpu(job: Job) -> None:
    job.write(0, HEADER.format(count=1, name="node1") + "fseen\nfvisible=7\n")
    job.read()
    assert job.samples.take_facts() == {"cuda": False, "visible": "7"}


def test_cuda_on_one_node_counts_for_the_job(job: Job) -> None:
    job.write(0, HEADER.format(count=2, name="node1") + "fseen\nfcuda\n")
    job.write(1, HEADER.format(count=2, name="node2") + "fseen\n")
    job.read()
    assert job.samples.take_facts() == {"cuda": True}


def test_owner_without_a_rank_is_read(job: Job) -> None:
    """Jobs that an older version has submitted print such lines."""
    owner = "o77\talice\tpython\texp_1\t\t70\np2026/11/23 14:00:00.000, GPU-node1, 700, 77\n"
    reading = "g2026/11/23 14:00:00.000, 0, 50, 1000\n"
    job.write(0, HEADER.format(count=1, name="node1") + owner + reading)
    job.is_over = True
    ((found,),) = (sample.processes for sample in job.read())
    assert (found.run, found.user, found.rank) == ("exp_1", "alice", -1)


def test_lines_of_other_programs_are_skipped(job: Job) -> None:
    text = HEADER.format(count=1, name="node1") + "g\np, ,\ngnever, 0, 1, 2\nt\n\0\xff\n" + "x" * 200_000
    job.write(0, text)
    (job.run / "gpu" / "other").write_text(text)
    job.read()
    assert job.samples.machine is not None
    (job.run / "gpu" / "1").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match=r"symbolic|symlink|loop"):
        job.samples.read()


def test_first_node_tells_how_long_the_files_are_quiet(job: Job, standin: Standin) -> None:
    standin.write(gpu(0))
    (job.run / "output.log").write_text("step 1\n")
    job.start()
    until(lambda: any((each.quiet or 0.0) > 3 for each in job.read()), "a silence")
    (job.run / "output.log").write_text("step 1\nstep 2\n")
    seen = len(job.read())
    until(lambda: any(each.quiet is not None and each.quiet < 3 for each in job.read()[seen:]), "a change")


def reading(second: int) -> str:
    return f"g2026/11/23 14:{second // 60:02}:{second % 60:02}.000, 0, 90, 1000\n"


def test_listing_with_a_new_file_ends_the_silence(job: Job) -> None:
    job.write(0, HEADER.format(count=1, name="node1") + reading(0) + "wa 1\n" + reading(30) + "wa 1\nkb 1\n")
    job.write(0, reading(40) + "wa 1\nkc 2\n" + reading(42))
    assert [each.quiet for each in job.read()] == [None, 30.0, 40.0, 2.0]


def test_silence_is_unknown_after_a_listing_that_failed(job: Job) -> None:
    job.write(0, HEADER.format(count=1, name="node1") + reading(0) + "wa 1\n" + reading(30) + "wa 1\nk\n")
    job.write(0, reading(31) + "wa 1\n" + reading(35))
    assert [each.quiet for each in job.read()] == [None, 30.0, None, 4.0]


def test_time_without_a_look_at_the_files_is_not_silence(job: Job) -> None:
    job.write(0, HEADER.format(count=1, name="node1") + reading(0) + "wa 1\n" + reading(20) + reading(600))
    job.write(0, "wa 2\n" + reading(602))
    assert [each.quiet for each in job.read()] == [None, 20.0, None, 2.0]
