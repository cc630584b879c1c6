"""What a short command does not need is not loaded: each of these costs more than the whole of what it does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import INSTALLED
from tests.conftest import write_project
from tests.faults.support import until

HEAVY = frozenset(
    ("textual", "rich", "yaml", "asyncio", "typing", "dataclasses", "pathlib", "inspect", "importlib.metadata",
     "torch", "asyncssh", "docker", "keyring", "sqlite3", "logging", "tempfile", "threading", "subprocess", "shutil",
     "random", "tui_workbench.ui", "hypothesis", "numpy", "urllib.parse", "socket", "ssl")
)  # fmt: skip

PROBE = """\
import json, os, sys
sys.argv = ["workbench-tui", *sys.argv[2:]]
at_start = set(sys.modules)
command = os.getpid()
def leave(code):
    if os.getpid() == command:  # and not the controller, which is a fork of it
        with open(os.environ["PROBE_RESULT"], "w") as file:
            json.dump([code, sorted(set(sys.modules) - at_start)], file)
    sys.stdout.flush()
    real(code)
real, os._exit = os._exit, leave
from tui_workbench.__main__ import main
main()
"""


def loaded(root: Path, *arguments: str) -> set[str]:
    """The modules that the command loads on top of those that any Python loads at its start."""
    result = root / "probe.json"
    done = subprocess.run(
        [sys.executable, "-c", PROBE, "-", *arguments],
        cwd=root,
        env={**os.environ, "PROBE_RESULT": str(result)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    code, modules = json.loads(result.read_text())
    assert code == 0, done.stderr.decode()
    return set(modules)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has run, whose configuration is remembered."""
    root = write_project(tmp_path_factory.mktemp("imports") / "project")
    cache = root / ".workbench" / "cache" / "configuration.json"

    def is_warm() -> bool:
        subprocess.run([INSTALLED, "experiment", "submit", "-c", "local", "hello.py"], cwd=root, check=True)
        return cache.exists() and cache.read_text().count('"signature"') == 2

    until(is_warm, "a cache of both files")
    subprocess.run([INSTALLED, "history", "list"], cwd=root, check=True, stdout=subprocess.DEVNULL)
    return root


SHORT = {
    "version": ("--version",),
    "help": ("--help",),
    "list": ("history", "list"),
    "last": ("history", "last"),
    "info": ("history", "info", "--run", "1"),
    "status": ("experiment", "status", "--run", "1"),
    "submit": ("experiment", "submit", "-c", "local", "hello.py"),
    "detached": ("experiment", "submit", "-c", "local", "--detach", "hello.py"),
    "plan": ("experiment", "submit", "-c", "local", "--dry-run", "hello.py"),
    "logs": ("logs", "1"),
    "follow": ("logs", "-f", "1"),
    "targets": ("computetarget", "list"),
    "configurations": ("runconfiguration", "list"),
}


@pytest.mark.parametrize("command", SHORT)
def test_a_short_command_loads_nothing_heavy(root: Path, command: str) -> None:
    assert not loaded(root, *SHORT[command]) & HEAVY


def listed(root: Path) -> list[dict[str, str]]:
    """What `history list` says."""
    done = subprocess.run([INSTALLED, "history", "list"], cwd=root, check=True, capture_output=True)
    records: list[dict[str, str]] = json.loads(done.stdout)
    return records


@pytest.mark.parametrize("command", ["list", "submit", "logs", "status"])
def test_a_short_command_loads_little_of_ours(root: Path, command: str) -> None:
    # Whoever comes first after a run's end has it indexed, with its metrics.
    until(lambda: {record["status"] for record in listed(root)} == {"Completed"}, "the end of all runs")
    ours = {name for name in loaded(root, *SHORT[command]) if name.startswith("tui_workbench")}
    assert len(ours) <= 31
    assert not {name for name in ours if name.startswith(("tui_workbench.config.", "tui_workbench.ui"))} - {
        "tui_workbench.config.cache",
        "tui_workbench.config.target_types",
    }


def test_the_version_loads_nothing_at_all(root: Path) -> None:
    assert loaded(root, "--version") <= {"tui_workbench", "tui_workbench.__main__", "__future__"}


def test_a_controller_loads_nothing_heavy(root: Path) -> None:
    script = "import json, sys\nimport tui_workbench.runs.controller\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], cwd=root, stdout=subprocess.PIPE, check=True)
    assert not set(json.loads(done.stdout)) & (HEAVY - {"importlib.metadata", "typing"})


def test_the_probe_sees_what_is_loaded(root: Path) -> None:
    assert {"yaml", "typing"} <= loaded(root, "config", "check")
