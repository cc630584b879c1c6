"""What every test stands on: a home of its own, a project of its own, and no silent skipping.

No test sees the real home directory or the user's git configuration. A part of the system that a test drives and that
`.ci/run` can install may be missing on a developer's machine, where the test is skipped with the reason, never on CI.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import hypothesis
import pytest

if TYPE_CHECKING:
    from tui_workbench.projects.project import Project

REPOSITORY = Path(__file__).resolve().parent.parent

# Whoever starts the tests in the background leaves them deaf to some signals, and what they start would be, too: a
# Ctrl-C typed into a terminal of a test would never arrive.
for _number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)

# Time is measured by the benchmarks; a machine busy with something else must not fail a property.
hypothesis.settings.register_profile("workbench", deadline=None, print_blob=True)
hypothesis.settings.load_profile("workbench")


def on_ci() -> bool:
    """True where nothing may be skipped for want of a part that can be installed."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def missing(reason: str) -> NoReturn:
    """End the test for want of something: skipped on a developer's machine, failed on CI."""
    if on_ci():
        pytest.fail(f"{reason}, and on CI nothing may be: .ci/run is to install it", pytrace=False)
    pytest.skip(reason)


def require(command: str) -> str:
    """The path of a command that the test drives; ends the test when it is not installed (see `missing`)."""
    # sshd and the like lie where an ordinary user's PATH does not look.
    path = shutil.which(command) or shutil.which(command, path="/usr/local/sbin:/usr/sbin:/sbin")
    if path is None:
        missing(f"{command} is not installed")
    return path


def corpus() -> Path:
    """The real configuration files beside the repository. Not being part of it, they may be absent, on CI too."""
    path = REPOSITORY.parent / "shared" / "corpus"
    if not path.is_dir():
        pytest.skip(f"the collection of real configuration files is not at {path}")
    return path


def write_project(root: Path, *, python: str = sys.executable, tracked: bool = False) -> Path:
    """Make a project at `root`: target and run configuration `local`, script `hello.py`; returns `root`."""
    configuration = root / "aml_config"
    configuration.mkdir(parents=True)
    (configuration / "local.compute").write_text(
        f'type: "local"\npythonLocation: {json.dumps(python)}\n', encoding="utf-8"
    )
    (configuration / "local.runconfig").write_text(
        'Target: "local"\nArgumentVector:\n  - "$file"\nFramework: "Python"\n'
        f"EnvironmentVariables: {{}}\nTrackedRun: {json.dumps(tracked)}\n",
        encoding="utf-8",
    )
    (root / "hello.py").write_text('print("hello")\n', encoding="utf-8")
    return root


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home directory, used by everything that asks for one, child processes included."""
    path = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    # What the tests are started in: a copy made by one must not land in its user's clipboard.
    for name in ("TMUX", "TMUX_PANE", "STY", "VTE_VERSION", "TERM_PROGRAM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name in list(os.environ):
        if name.startswith(("XDG_", "AZUREML_")) or (name.startswith("GIT_") and name != "GIT_CONFIG_NOSYSTEM"):
            monkeypatch.delenv(name)
    return path


@pytest.fixture
def project_root(tmp_path: Path) -> Path:
    """The folder of a small project: target and run configuration `local`, which use this Python, and `hello.py`."""
    return write_project(tmp_path / "project")


@pytest.fixture
def project(project_root: Path) -> Project:
    """The project in `project_root`, opened."""
    from tui_workbench.projects.project import Project

    return Project.find(str(project_root))
