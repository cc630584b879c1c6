"""Facts about the environment of a run, for every kind of target."""

from __future__ import annotations

import ast
import platform
import sys
from pathlib import Path

import pytest

from tests.engines import DockerEngine
from tests.targets.docker_fixtures import files_of
from tests.targets.harness import PYTHON, Harness, Script
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.base.python_environment import PROGRAM
from tui_workbench.targets.local.local_target import LocalTarget
from tui_workbench.targets.remote.remote_target import RemoteTarget


@pytest.fixture
def local_harness(tmp_path: Path) -> Harness:
    class LocalHarness(Harness):
        def target(self) -> LocalTarget:
            return LocalTarget(self.compute_target())

        def compute_target(self) -> ComputeTarget:
            return ComputeTarget("local", str(self.folder / "local.compute"), "local", sys.executable)

        def write(self, path: Path, script: Script) -> None:
            path.write_text(PYTHON.format(script=tuple(script)))

    return LocalHarness(tmp_path)


def test_program_runs_on_old_interpreters() -> None:
    ast.parse(PROGRAM, feature_version=(3, 5))


def test_info_of_a_local_run(local_harness: Harness, tmp_path: Path) -> None:
    extra = tmp_path / "extra"
    for folder, origin in (
        ("tinypackage-1.5.dist-info", ""),
        ("edited-2.dist-info", '{"url": "https://u:p@host/r", "vcs_info": {"commit_id": "abc"}}'),
    ):
        (extra / folder).mkdir(parents=True)
        name, _, version = folder.removesuffix(".dist-info").partition("-")
        (extra / folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        if origin:
            (extra / folder / "direct_url.json").write_text(origin)
    spec = local_harness.spec(Script(), variables={"PYTHONPATH": str(extra)})
    found = local_harness.target().python_environment(spec).machine_info(sys.executable)
    assert found["problems"] == {}
    assert found["packages"]["tinypackage"] == "1.5"
    assert found["packages"]["edited"] == "2 @ https://u:p@host/r@abc"
    assert found["packages"]["pytest"] == pytest.__version__
    assert found["python"]["version"] == platform.python_version()
    assert found["python"]["executable"] == sys.executable
    assert found["host"]["name"] == platform.node()
    assert found["host"]["memory"] > 10**8
    assert isinstance(found["gpus"], list)


def test_info_contains_gpus(local_harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho 'Tesla T4, 550.54, 15360 MiB, GPU-1'\necho 'broken'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    found = local_harness.target().python_environment(local_harness.spec(Script())).machine_info(sys.executable)
    (gpu,) = found["gpus"]
    assert (gpu["name"], gpu["driver"], gpu["memory"], gpu["uuid"]) == ("Tesla T4", "550.54", "15360 MiB", "GPU-1")


@pytest.mark.parametrize("program", ["/bin/true", "/bin/false", "/nowhere/python", "/bin/echo"])
def test_other_program_is_a_problem(local_harness: Harness, program: str) -> None:
    found = local_harness.target().python_environment(local_harness.spec(Script())).machine_info(program)
    assert set(found) == {"problems", "host", "gpus"}
    assert found["problems"]["packages"]


def test_info_of_a_remote_run(remote_harness: Harness) -> None:
    target = remote_harness.target()
    assert isinstance(target, RemoteTarget)
    found = target.python_environment(remote_harness.spec(Script())).machine_info("python")
    assert found["problems"] == {}
    assert found["python"]["executable"].startswith("/usr/bin/python3")
    assert found["host"]["name"] == "gpubox"
    assert isinstance(found["packages"], dict)


def test_info_of_a_run_in_a_container(localdocker_harness: Harness, engine: DockerEngine) -> None:
    spec = localdocker_harness.spec(Script(waits=True))
    localdocker_harness.start(spec)
    found = localdocker_harness.target().python_environment(spec).machine_info("")
    assert found["problems"] == {}
    assert found["image"]["digest"].startswith("sha256:")
    assert found["image"]["name"] == spec.target.base_docker_image
    assert found["python"]["version"].startswith("3.")
    assert found["gpus"] == []
    assert found["host"]["processors"] >= 1
    assert files_of(Path(spec.working_directory))
