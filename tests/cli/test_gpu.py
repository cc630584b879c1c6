"""`gpu check`: results as text and data, and exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import Workbench
from tests.gpu import frameworks as standins
from tests.gpu.standin import Standin, gpu
from tests.gpu.standin import standin as standin
from tests.gpu.standin import standin_parts as standin_parts

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def workbench(project_root: Path, tmp_path: Path, standin: Standin) -> Workbench:
    """Return a project on a machine with a stand-in GPU; the run configuration `local` has a PyTorch that uses it."""
    standin.write(gpu(0))
    standins.torch(tmp_path / "packages")
    path = project_root / "aml_config" / "local.runconfig"
    text = path.read_text()
    (path.parent / "bare.runconfig").write_text(text)
    path.write_text(text.replace("{}", f"{{PYTHONPATH: {tmp_path / 'packages'}}}"))
    return Workbench(project_root)


def test_each_check_is_a_line(workbench: Workbench) -> None:
    result = workbench.run("gpu", "check", "-t", "local")
    assert result.code == 0
    assert result.out.split("\n")[0] == "ok        gpu driver      driver 550.54, supports CUDA 12.4"
    assert "ok        computes        PyTorch sees 1 GPU; a matrix product on it was correct" in result.out
    assert max(map(len, result.out.split("\n"))) <= 120


def test_each_check_has_its_fix_in_json(workbench: Workbench, standin: Standin) -> None:
    standin.write("fail Failed to initialize NVML: Driver/library version mismatch")
    result = workbench.run("gpu", "check", "-t", "local", "-o", "json")
    assert result.code == 4
    (rung,) = json.loads(result.out)
    assert (rung["rung"], rung["state"], rung["command"]) == ("gpu driver", "broken", "sudo reboot")
    table = workbench.run("gpu", "check", "-t", "local", "-o", "table")
    assert (table.code, "sudo reboot" in table.out) == (4, True)


def test_environment_of_the_run_configuration_is_checked(workbench: Workbench) -> None:
    asked = {
        name: json.loads(workbench.run("gpu", "check", "-c", name, "-o", "json").out)[2]["message"]
        for name in ("local", "bare")
    }
    assert asked["local"].startswith("PyTorch 2.4.0+cu121 for CUDA 12.1 in ")
    assert "2.4.0+cu121" not in asked["bare"]


def test_missing_target_and_configuration_is_wrong_usage(workbench: Workbench) -> None:
    workbench.run("gpu", "check").error(2, "no target or run configuration given")
    workbench.run("gpu", "check", "-t", "nowhere").error(3, "nowhere")


def test_missing_driver_shows_the_fix(workbench: Workbench) -> None:
    workbench.environment["PATH"] = "/usr/bin:/bin"
    result = workbench.run("gpu", "check", "-t", "local")
    assert result.code == 4
    assert result.out.split("\n")[2:5] == [
        "          If the machine has no GPU, choose another target.",
        "          Run on this machine:",
        "              workbench-tui computetarget prepare local",
    ]
