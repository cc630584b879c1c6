"""A run that requests a GPU but would train on the CPU does not start, unless the user allows it.

Drivers and frameworks are stand-ins; the command line, runs and environments are real.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.support import Workbench, until
from tests.gpu import frameworks as standins
from tests.gpu.standin import Standin, gpu
from tui_workbench.core.errors import NoGpu
from tui_workbench.core.model import ComputeTarget, RunConfiguration, RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.gpu import gate
from tui_workbench.targets.gpu.framework_location import spec_of
from tui_workbench.targets.gpu.gpus import asked_for


class Asking(Workbench):
    """A project that requests all GPUs, on a machine with one GPU and separate frameworks."""

    def __init__(self, folder: Path, packages: Path) -> None:
        super().__init__(folder)
        self.packages = packages
        self.append("local.compute", "gpus: all")
        path = folder / "aml_config" / "local.runconfig"
        first, _, _ = path.read_text().partition("EnvironmentVariables")
        path.write_text(f"{first}EnvironmentVariables:\n  PYTHONPATH: {packages}\n")
        (folder / "train.py").write_text("import model\nprint('trained')\n")
        (folder / "model.py").write_text("import torch\n")

    def append(self, name: str, line: str) -> None:
        with (self.folder / "aml_config" / name).open("a") as file:
            file.write(f"{line}\n")

    @property
    def runs(self) -> Runs:
        return Runs(Project.find(str(self.folder)))


@pytest.fixture
def asking(project_root: Path, tmp_path: Path, standin: Standin) -> Asking:
    standin.write(gpu(0))
    return Asking(project_root, tmp_path / "packages")


def test_run_that_would_use_the_cpu_is_refused(asking: Asking) -> None:
    standins.torch(asking.packages, version="2.4.0+cpu", cuda=None, capabilities=())
    result = asking.submit("train.py")
    assert result.code == 3
    message, first, second, rest = result.err.split("\n")
    assert message.endswith(
        "this run would not use a GPU, but gpus is all: PyTorch 2.4.0+cpu is a CPU build: it trains on the CPU."
    )
    assert "-m pip install --force-reinstall torch" in first
    assert (second, rest) == ("  To run on the CPU, add `--allow-cpu`.", "")
    assert asking.history() == []


def test_allow_cpu_starts_the_run(asking: Asking) -> None:
    standins.torch(asking.packages, version="2.4.0+cpu", cuda=None, capabilities=())
    assert asking.submit("--allow-cpu", "train.py").out.split("\n")[1] == "trained"
    (run,) = asking.runs.list()
    with pytest.raises(NoGpu):
        asking.runs.submit(asking.runs.request_of(run.run_id))
    assert asking.run("experiment", "rerun", "-r", "1", "--allow-cpu").code == 0
    swept = ("experiment", "sweep", "-c", "local", "--param", "lr=1,2")
    assert asking.run(*swept, "train.py").code == 3
    assert asking.run(*swept, "--allow-cpu", "train.py").code == 0


def test_framework_is_checked_once_for_a_run(asking: Asking) -> None:
    standins.torch(asking.packages)
    module = asking.packages / "torch" / "__init__.py"
    loaded = asking.packages.parent / "loaded"
    module.write_text(f"import sys\nif len(sys.argv) > 3: open({str(loaded)!r}, 'a').write('x')\n" + module.read_text())
    for _ in range(2):
        assert asking.submit("train.py").out.split("\n")[1] == "trained"
    assert loaded.read_text() == "x"


def test_script_without_framework_is_started(asking: Asking) -> None:
    standins.torch(asking.packages, version="2.4.0+cpu", cuda=None, capabilities=())
    (asking.folder / "model.py").write_text("")
    assert asking.submit("train.py").code == 0


def test_machine_without_gpu_refuses_the_run(asking: Asking, standin: Standin) -> None:
    standin.write()
    asking.submit("train.py").error(3, "the NVIDIA driver finds no GPU: No devices were found")


def test_plan_has_the_result_of_the_last_check(asking: Asking) -> None:
    standins.torch(asking.packages)
    assert asking.submit("train.py").code == 0
    shown = asking.run("experiment", "submit", "-c", "local", "--dry-run", "train.py").out
    assert "preflight: check that the run would use the GPU: PyTorch sees 1 GPU; a matrix product was correct" in shown
    standins.torch(asking.packages, version="2.4.0+cpu", cuda=None, capabilities=())
    os.utime(asking.packages, (1, 1))  # as a package manager does, but seldom within the same second
    assert asking.submit("train.py").code == 3
    shown = asking.run("experiment", "submit", "-c", "local", "--dry-run", "train.py").out
    assert "preflight: this run would not use a GPU, but gpus is all: PyTorch 2.4.0+cpu is" in shown
    assert ". The run would not start." in shown
    shown = asking.run("experiment", "submit", "-c", "local", "--dry-run", "--allow-cpu", "train.py").out
    assert "preflight" not in shown


def test_plan_starts_no_interpreter(asking: Asking, tmp_path: Path) -> None:
    """The run configuration of a project can set PYTHONPATH, which decides which modules are executed."""
    standins.torch(asking.packages)
    (asking.packages / "torch" / "__init__.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w')\n")
    shown = asking.run("experiment", "submit", "-c", "local", "--dry-run", "train.py").out
    assert "is checked when the run starts" in shown
    assert not (tmp_path / "canary").exists()


def test_environment_is_checked_after_its_build(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller checks again: the run fails with the reason, and its script never starts."""
    seen = [gate.GpuCheck("the environment is not built yet", is_due=True)]
    monkeypatch.setattr(gate, "check_gpu", lambda spec: seen[0])
    asking.append("local.compute", "userManagedEnvironment: false")
    asking.append("local.runconfig", "PrepareEnvironment: true")
    standins.torch(asking.packages, version="2.4.0+cpu", cuda=None, capabilities=())
    run = asking.runs.submit(RunRequest("local", "train.py"))
    ended = until(lambda: (now := asking.runs.get(run.run_id)).end and now, "its end")
    assert ended.state == "failed"
    assert "this run would not use a GPU, but gpus is all: PyTorch 2.4.0+cpu is a CPU build" in ended.reason
    assert not Path(ended.log_path).exists()


def test_run_can_be_canceled_during_the_check(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "check_gpu", lambda spec: gate.GpuCheck("", is_due=True))
    asking.append("local.compute", "userManagedEnvironment: false")
    asking.append("local.runconfig", "PrepareEnvironment: true")
    begun = asking.packages / "begun"
    text = f"import os, time; open({str(begun)!r}, 'w').write('%d\\n' % os.getpid()); time.sleep(600)\n"
    standins.stand_in(asking.packages, "torch", text)
    run = asking.runs.submit(RunRequest("local", "train.py"))
    until(lambda: begun.exists() and begun.read_text().endswith("\n"), "the question")
    assert asking.runs.cancel(run.run_id).state == "canceled"
    until(lambda: not Path(f"/proc/{int(begun.read_text())}").exists(), "its end")


def test_other_problems_are_left_to_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'nobody'}")
    path = str(tmp_path / "aml_config" / "box.compute")
    docker = ComputeTarget("box", path, "localdocker", base_docker_image="python:3.12", nvidia_docker=True)
    seen = gate.check_gpu(spec_of(docker))
    assert (seen.refusal, seen.is_due) == (None, True)


def test_run_without_gpu_request_is_not_checked(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise AssertionError("it was looked at")

    monkeypatch.setattr(gate, "admit", refuse)
    runs = Runs(project)
    run = runs.submit(RunRequest("local", "hello.py"))
    until(lambda: runs.get(run.run_id).end, "its end")


BARE = RunConfiguration("c", "c.runconfig", "t")
LOCAL = ComputeTarget("t", "t.compute", "local")
DOCKER = ComputeTarget(
    "t", "t.compute", "localdocker", base_docker_image="pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime"
)
SLURM = ComputeTarget("t", "t.compute", "slurm")


@pytest.mark.parametrize(
    ("target", "configuration", "why"),
    [
        (LOCAL, BARE, ""),
        (LOCAL._replace(gpus="0"), BARE, ""),
        (LOCAL._replace(gpus="free"), BARE, "gpus is free"),
        (LOCAL, BARE._replace(require_gpu=True), "RequireGpu is true"),
        (LOCAL, BARE._replace(processes_per_node="gpus"), "ProcessesPerNode is gpus"),
        (LOCAL, BARE._replace(processes_per_node="2"), ""),
        (LOCAL._replace(nvidia_docker=True), BARE, ""),
        (DOCKER, BARE, ""),
        (DOCKER._replace(nvidia_docker=True), BARE, "nvidiaDocker is true"),
        (DOCKER._replace(nvidia_docker=True, gpus="0"), BARE, ""),
        (DOCKER._replace(gpus="[0, 1]"), BARE, "gpus is [0, 1]"),
        (SLURM, BARE._replace(processes_per_node="gpus"), ""),
        (SLURM, BARE._replace(processes_per_node="gpus", require_gpu=True), "RequireGpu is true"),
    ],
)  # fmt: skip
def test_asked_for_names_the_setting(target: ComputeTarget, configuration: RunConfiguration, why: str) -> None:
    assert asked_for(target, configuration) == why
