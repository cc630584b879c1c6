"""The acceptance suite for real GPUs works: every check that stand-ins allow passes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.conftest import REPOSITORY, require
from tests.gpu.real.__main__ import make_environment

if TYPE_CHECKING:
    from pathlib import Path

NEED_A_FRAMEWORK = {"torchrun_rank_computes_on_its_gpu", "jax_run_is_proven", "tensorboard_values_are_metrics"}


@pytest.mark.system
def test_suite_passes_with_stand_ins(tmp_path: Path) -> None:
    require("gcc")
    words = [sys.executable, "-m", "tests.gpu.real.rehearsal", str(tmp_path)]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["stand_ins"]
    assert {each["name"] for each in report["results"] if each["outcome"] == "skipped"} == NEED_A_FRAMEWORK
    assert "It proves nothing about GPUs." in (tmp_path / "proved-on.md").read_text()
    assert "compute.py" in (tmp_path / "monitor.txt").read_text()


@pytest.mark.processes
def test_suite_starts_with_its_wheels_alone(tmp_path: Path) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    words = [sys.executable, "-m", "tests.gpu.real.wheels", str(tmp_path / "wheels"), version]
    subprocess.run(words, cwd=REPOSITORY, check=True)
    python = make_environment(tmp_path / "environment", tmp_path / "wheels")
    subprocess.run([python, "-c", "import tests.gpu.real.suite"], cwd=REPOSITORY, check=True)
