"""A tracked run imports the packages of its project from its snapshot, however they were installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.support import Installed
from tests.conftest import write_project
from tests.runs.support import write_configuration, write_files
from tui_workbench.sdk.workbench_packages import RECORD
from tui_workbench.targets.base.run_environment import PACKAGES_LAUNCHER
from tui_workbench.targets.values import SDK_FOLDER

if TYPE_CHECKING:
    from tests.faults.support import Result

pytestmark = pytest.mark.processes

SETUPTOOLS = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
HATCHLING = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
NAMED = '[project]\nname = "losses"\nversion = "1"\n'
SCRIPT = """\
import subprocess, sys
import losses.conf, losses.version
child = [sys.executable, "-c", "import losses.conf; print(losses.conf.LOSS)"]
print("loss", losses.conf.LOSS, losses.version.TEXT, subprocess.check_output(child).decode())
print(losses.conf.__file__)
"""
PACKAGE = {"__init__.py": "", "conf.py": "LOSS = 0.1\n", "version.py": 'TEXT = "v1"\n'}


class Layout:
    """A project with the package `losses` in the folder `source`, and an environment with its editable installation."""

    def __init__(self, tmp_path: Path, source: str, build: str, extra: str = "") -> None:
        self.root = tmp_path / "project"
        self.environment = tmp_path / "environment"
        self.source = self.root / source
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.environment], check=True)
        write_project(self.root, python=str(self.environment / "bin" / "python"), tracked=True)
        write_files(self.source, PACKAGE)
        # Generated modules are often ignored.
        write_files(
            self.root,
            {
                "pyproject.toml": build + NAMED + extra,
                ".gitignore": "version.py\n__pycache__\n*.egg-info\nbuild\n",
                "jobs/train.py": SCRIPT,
            },
        )
        if build:
            self._install()
        self.workbench = Installed(self.root)

    def _install(self) -> None:
        packages = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
        install = ["-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--no-index", "-e", "."]
        subprocess.run(
            [self.environment / "bin" / "python", *install],
            cwd=self.root, env={**os.environ, "PYTHONPATH": packages}, check=True,
        )  # fmt: skip

    def folders_of_runs(self) -> list[Path]:
        return sorted((self.root / ".workbench" / "runs").iterdir())


LAYOUTS = {
    "setuptools, src": ("src/losses", SETUPTOOLS, ""),
    "setuptools, flat": ("losses", SETUPTOOLS, '[tool.setuptools]\npackages = ["losses"]\n'),
    "setuptools, other folder": (
        "lib",
        SETUPTOOLS,
        '[tool.setuptools]\npackages = ["losses"]\n[tool.setuptools.package-dir]\nlosses = "lib"\n',
    ),
    "hatchling, src": ("src/losses", HATCHLING, '[tool.hatch.build]\ndev-mode-dirs = ["src"]\n'),
    "hatchling, flat": ("losses", HATCHLING, '[tool.hatch.build]\ndev-mode-dirs = ["."]\n'),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_rerun_of_an_editable_installation_uses_the_snapshot(tmp_path: Path, layout: tuple[str, str, str]) -> None:
    project = Layout(tmp_path, *layout)
    assert lines(project.workbench.submit("jobs/train.py"))[0] == "loss 0.1 v1 0.1"
    (project.source / "conf.py").write_text("LOSS = 0.9\n")
    again = lines(project.workbench.run("experiment", "rerun", "-r", "1"))
    assert again[0] == "loss 0.1 v1 0.1"
    assert again[-1].startswith(str(project.folders_of_runs()[1]))
    assert lines(project.workbench.submit("jobs/train.py"))[0] == "loss 0.9 v1 0.9"


def test_record_names_the_replaced_folder(tmp_path: Path) -> None:
    project = Layout(tmp_path, *LAYOUTS["hatchling, src"])
    project.workbench.submit("jobs/train.py")
    (run,) = project.folders_of_runs()
    assert json.loads((run / RECORD).read_text()) == {
        "replaced": {str(project.root / "src"): str(run / "work" / "src")},
        "problem": "",
    }


def test_python_path_into_the_project_leads_to_the_snapshot(tmp_path: Path) -> None:
    project = Layout(tmp_path, "lib/losses", "")
    write_configuration(project.root, TrackedRun=True, EnvironmentVariables={"PYTHONPATH": str(project.root / "lib")})
    project.workbench.submit("jobs/train.py")
    (project.source / "conf.py").write_text("LOSS = 0.9\n")
    assert lines(project.workbench.run("experiment", "rerun", "-r", "1"))[0] == "loss 0.1 v1 0.1"


def test_run_says_which_package_is_not_from_the_snapshot(tmp_path: Path) -> None:
    """Some build systems import a package with hooks that come before the Python path."""
    project = Layout(tmp_path, *LAYOUTS["hatchling, src"])
    (site,) = project.environment.glob("lib/python3*/site-packages")
    (path,) = site.glob("*losses*.pth")
    path.write_text(f"import sys; sys.path_hooks  # {project.root}\n")
    result = project.workbench.run("experiment", "submit", "-c", "local", "jobs/train.py")
    assert f"workbench: losses is imported from {project.root}, and not from the snapshot." in result.out


def test_installation_of_another_copy_of_the_project_is_replaced(tmp_path: Path) -> None:
    """On another machine, the packages can be installed from a clone that is in another folder."""
    project = Layout(tmp_path, *LAYOUTS["setuptools, src"])
    copy = tmp_path / "copy"
    shutil.copytree(project.root, copy)
    (copy / "src" / "losses" / "conf.py").write_text("LOSS = 0.5\n")
    python = str(project.environment / "bin" / "python")
    launcher = os.path.join(SDK_FOLDER, PACKAGES_LAUNCHER)
    command = [
        python,
        launcher,
        str(tmp_path),
        "/somewhere/else",
        python,
        "-c",
        "import losses.conf as c; print(c.LOSS)",
    ]
    assert subprocess.check_output(command, cwd=copy, text=True) == "0.5\n"


def lines(result: Result) -> list[str]:
    assert result.code == 0, result
    return [line for line in result.out.splitlines() if line.startswith(("loss", "/")) or not line][:3]
