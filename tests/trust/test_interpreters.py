"""Commands that only look at a project start no interpreter that it names."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import write_project
from tests.faults.support import Workbench
from tests.runs.support import write_configuration, write_files
from tui_workbench.targets.base.interpreter import python_version, version_without_project

PLACES = ("project/bin", "tools", "project/.venv/bin", "venv/bin")
"""Folders below the top of a repository, beside and in a project."""


def trap(path: Path, canary: Path) -> Path:
    """Create a program that creates `canary`, and answers as Python does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{canary}'\necho 3.9.1\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the project in a cloned repository with other folders."""
    root = write_project(tmp_path / "project")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return root


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["python3", "python", "python3.11", "pypy3", "evil"])
@pytest.mark.parametrize("is_repository", [True, False])
def test_interpreter_in_or_beside_the_project_is_not_started(
    root: Path, place: str, name: str, is_repository: bool
) -> None:
    if not is_repository:
        shutil.rmtree(root.parent / ".git")
    canary = root.parent / "canary"
    program = trap(root.parent / place / name, canary)
    assert version_without_project(str(program), str(root)) == ("3.11" if name == "python3.11" else "")
    assert not canary.exists()


def test_interpreter_on_the_path_is_not_started_if_it_is_in_the_work_tree(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = root.parent / "canary"
    program = trap(root.parent / "tools" / "python3", canary)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    assert version_without_project(str(program), str(root)) == ""
    assert not canary.exists()


def test_version_of_an_interpreter_on_the_path(
    root: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = trap(tmp_path_factory.mktemp("own") / "python3.9", root / "started")
    assert version_without_project(str(program), str(root)) == "3.9", "the name of the file"
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    assert version_without_project(str(program), str(root)) == "3.9.1"
    link = root / ".venv" / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.symlink_to(program)
    assert version_without_project(str(link), str(root)) == "3.9.1"
    program.chmod(0o777)
    assert version_without_project(str(program), str(root)) == "3.9", "other users can change the file"


def test_version_of_the_interpreter_of_the_workbench(root: Path) -> None:
    link = root / ".venv" / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.symlink_to(os.path.realpath(sys.executable))
    assert version_without_project(str(link), str(root)) == python_version(sys.executable)


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({"pyvenv.cfg": "home = /x\nversion = 3.10.4\n"}, "3.10.4"),
        ({"pyvenv.cfg": "home = /x\nversion_info = 3.12.5\nversion=1\n"}, "3.12.5"),
        ({"pyvenv.cfg": "version_info = 3.8.1.final.0\n"}, "3.8.1"),
        ({"pyvenv.cfg": "version = \x1b[31m3.8.1\n"}, ""),
        ({"pyvenv.cfg": "version = 3.8.1" + "0" * 100}, "3.8"),
        ({"conda-meta/python-3.10.13-h955ad1f_0.json": "{}", "conda-meta/history": ""}, "3.10.13"),
        ({}, ""),
    ],
)
def test_version_is_read_from_the_files_of_an_environment(root: Path, files: dict[str, str], version: str) -> None:
    program = trap(root / "venv" / "bin" / "python", root / "canary")
    write_files(root / "venv", files)
    assert version_without_project(str(program), str(root)) == version
    assert not (root / "canary").exists()


@pytest.mark.parametrize("place", PLACES)
def test_plan_of_a_managed_environment_starts_no_interpreter(root: Path, place: str) -> None:
    canary = root.parent / "canary"
    program = trap(root.parent / place / "python3", canary)
    write_configuration(root, suffix="compute", type="local", pythonLocation=str(program), userManagedEnvironment=False)
    write_configuration(root, CondaDependenciesFile="conda.yml", PrepareEnvironment=True)
    write_files(root, {"conda.yml": "dependencies:\n  - python=3.6.2\n  - pip:\n    - numpy\n"})
    done = Workbench(root).run("experiment", "submit", "-c", "local", "--dry-run", "hello.py")
    assert "environment" in done.out
    assert not canary.exists()


def test_plan_of_a_spark_run_starts_no_program_of_the_project(root: Path) -> None:
    canary = root.parent / "canary"
    for name in ("spark-submit", "java", "readlink", "printf", "env", "sh", "python"):
        trap(root / "bin" / name, canary)
    write_configuration(root, suffix="compute", type="local", pythonLocation="bin/python")
    write_configuration(root, Framework="PySpark", EnvironmentVariables={"PATH": str(root / "bin")})
    Workbench(root).run("experiment", "submit", "-c", "local", "--dry-run", "hello.py")
    assert not canary.exists()


def test_own_version_has_the_usual_form() -> None:
    assert version_without_project(sys.executable, "/") == platform.python_version().rstrip("+")
