"""Commands do not import large libraries of the screens or of other targets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import write_project

LARGE = frozenset(("textual", "rich", "torch", "docker", "requests", "asyncssh", "rattler", "aiohttp", "numpy"))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with one run."""
    root = write_project(tmp_path_factory.mktemp("imports") / "project")
    submit = [sys.executable, "-m", "tui_workbench", "experiment", "submit", "-c", "local", "hello.py"]
    subprocess.run(submit, cwd=root, check=True, stdout=subprocess.DEVNULL)
    return root


def loaded(root: Path, *arguments: str) -> set[str]:
    """Return the top-level modules that a command imports."""
    command = [sys.executable, "-X", "importtime", "-m", "tui_workbench", *arguments]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    names = (line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:"))
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize(
    "line",
    [
        "--version",
        "--help",
        "history list",
        "history info --run 1",
        "experiment status --run 1",
        "experiment submit -c local hello.py",
        "experiment submit -c local --dry-run hello.py",
        "logs 1",
        "logs -f 1",
        "computetarget list",
        "computetarget attach --help",
        "computetarget attach localdocker -n box --no-check",
        "runconfiguration list",
        "status --line",
        "trace",
    ],
)
def test_command_loads_no_large_library(root: Path, line: str) -> None:
    assert not loaded(root, *line.split()) & LARGE


def test_version_loads_no_other_command(root: Path) -> None:
    assert not loaded(root, "--version") & {"yaml", "sqlite3", "asyncio"}


def test_loaded_modules_are_detected(root: Path) -> None:
    assert {"tui_workbench", "yaml"} <= loaded(root, "config", "check")
