"""GPU verdicts of jobs on a real cluster. nvidia-smi is a stand-in (see standin.py)."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.support import until
from tests.gpu.standin import REST, Built, Standin, gpu
from tests.gpu.standin import standin_parts as standin_parts

if TYPE_CHECKING:
    from tests.targets.slurm.project import SlurmProject

TRAIN = """\
import os, sys, time
with open(os.environ["STANDIN_NVML_STATE"], "a") as state:
    state.write("proc %s %d 900 35 C\\n" % (os.environ["CUDA_VISIBLE_DEVICES"], os.getpid()))
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
print("trained")
"""

TRAINS_AGAIN = f"""\
{TRAIN}
time.sleep(4)
path = os.environ["STANDIN_NVML_STATE"]
with open(path) as state, open(path + ".new", "w") as new:
    new.writelines(line for line in state if not line.startswith("proc"))
os.replace(path + ".new", path)
sys.exit(os.environ["WORKBENCH_ATTEMPT"] == "1")
"""
"""Fails in its first attempt. The stand-in does not notice the end of a process, so the script removes its own."""


class Gpus:
    """Stand-in GPUs on all nodes, and a project whose jobs request them."""

    def __init__(self, project: SlurmProject, built: Built) -> None:
        self.project = project
        self._folder = project.cluster.scratch / "standin"
        self._folder.mkdir()
        self._folder.chmod(0o777)
        shutil.copy(built.programs / "nvidia-smi", self._folder)
        self._standin = Standin(self._folder / "gpus", built)
        self.write(gpu(0), gpu(1, REST))
        self.configure({"gpus": 1})

    def configure(self, options: dict[str, Any], **runconfig: Any) -> None:
        """Write the configuration files with these options of the job."""
        setup = [f"export PATH={self._folder}:$PATH STANDIN_NVML_STATE={self._standin.state}"]
        self.project.configure({"slurm": {"partition": "gpu", **options}, "setup": setup}, **runconfig)

    def write(self, *lines: str) -> None:
        """Replace the state of the GPUs of all nodes."""
        self._standin.write(*lines)
        self._standin.state.chmod(0o666)

    def begin_training(self) -> str:
        """Start a script that uses its GPU until the project's gate exists."""
        self.project.write(TRAIN)
        return self.project.detach("train.py", str(self.project.gate), configuration="cluster")

    def verdict(self, run_id: str) -> dict[str, Any]:
        """Return the verdict of a run so far; empty without one."""
        found: dict[str, Any] = self.project.info(run_id).get("gpu") or {}
        return found


@pytest.fixture
def gpus(project: SlurmProject, standin_parts: Built) -> Gpus:
    return Gpus(project, standin_parts)


def test_verdict_is_proven_during_the_job_and_after(gpus: Gpus, project: SlurmProject) -> None:
    run_id = gpus.begin_training()
    until(lambda: gpus.verdict(run_id).get("verdict") == "proven", "the verdict during the job")
    assert not gpus.verdict(run_id)["final"]
    project.gate.touch()
    project.until_status(run_id, "Completed")
    final = gpus.verdict(run_id)
    assert (final["verdict"], final["final"]) == ("proven", True)
    assert [(each["number"], each["name"], each["peak_memory"]) for each in final["devices"]] == [(0, "Tesla T4", 900)]
    assert not (project.run_directory(run_id) / "gpu").exists()
    until(lambda: not project.cluster.output(["squeue", "-h"]), "the end of the job")
    assert (project.run_directory(run_id) / "output.log").read_bytes() == b"trained\n"


def test_short_job_gets_a_verdict_from_its_samples(gpus: Gpus, project: SlurmProject) -> None:
    project.gate.touch()
    project.write(TRAIN.replace("while", "time.sleep(4)\nwhile"))
    ended = project.submit("train.py", str(project.gate), configuration="cluster")
    assert ended.code == 0, ended
    assert gpus.verdict("1")["verdict"] == "proven"


def test_each_attempt_has_a_verdict_from_its_own_job(gpus: Gpus, project: SlurmProject) -> None:
    gpus.configure({"gpus": 1}, Retry={"delay": 0})
    project.gate.touch()
    project.write(TRAINS_AGAIN)
    ended = project.submit("train.py", str(project.gate), configuration="cluster")
    assert ended.code == 0, ended
    attempts = project.info(project.history()[0]["run_id"])["attempts"]
    assert [each["gpu"]["verdict"] for each in attempts] == ["proven", "proven"]


def test_job_without_gpu_request_has_no_samples(gpus: Gpus, project: SlurmProject) -> None:
    gpus.configure({})
    project.write("print('cpu')")
    assert project.submit("train.py", configuration="cluster").code == 0
    assert not list(project.run_directory(project.history()[0]["run_id"]).glob("gpu*"))


def test_require_gpu_ends_a_job_whose_node_has_no_driver(gpus: Gpus, project: SlurmProject) -> None:
    gpus.configure({"gpus": 1}, RequireGpu=True)
    gpus.write()
    project.write("import time\ntime.sleep(600)\n")
    ended = project.submit("train.py", configuration="cluster")
    assert "RequireGpu: no NVIDIA or AMD GPU is available" in ended.err


def test_verdict_covers_the_gpus_of_all_nodes(gpus: Gpus, project: SlurmProject) -> None:
    gpus.configure({"nodes": 2, "gpus": 2})
    run_id = gpus.begin_training()
    until(lambda: len(gpus.verdict(run_id).get("devices", ())) == 2, "the GPUs of both nodes")
    assert {each["name"] for each in gpus.verdict(run_id)["devices"]} == {"node1: Tesla T4", "node2: Tesla T4"}
    project.gate.touch()
    project.until_status(run_id, "Completed")


def test_idle_job_is_ended(gpus: Gpus, project: SlurmProject) -> None:
    gpus.configure({"gpus": 1}, StopIfIdleMinutes=1)
    gpus.write(gpu(0, REST), gpu(1, REST))
    run_id = gpus.begin_training()
    project.until_status(run_id, "Failed", "Completed", "Canceled")
    information = project.info(run_id)
    assert information["status"] == "Canceled"
    assert "StopIfIdleMinutes: none of its processes has computed on a GPU for 1 min" in information["reason"]
    assert project.cluster.output(["squeue", "-h"]) == ""


def test_script_is_told_before_the_longest_duration(gpus: Gpus, project: SlurmProject) -> None:
    gpus.configure({"gpus": 1}, MaxDurationMinutes=1, SignalBeforeEndMinutes=1)
    project.write(
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit('saved'))\n"
        "print('began', flush=True)\ntime.sleep(600)\n"
    )
    run_id = project.detach("train.py", configuration="cluster")
    project.until_status(run_id, "Failed", "Completed", "Canceled")
    assert "MaxDurationMinutes: sent SIGTERM 1 min before its limit of 1 min" in project.info(run_id)["reason"]
    assert project.cluster.output(["squeue", "-h"]) == ""
