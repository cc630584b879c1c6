"""A project that is the same on every machine, and the fixed surroundings of its screens."""

from __future__ import annotations

import importlib
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui.gpu.states import machine, process, reading, rest
from tests.ui.runs.past import EPOCH, falling, past_run
from tui_workbench.core.model import RunState
from tui_workbench.projects.project import Project
from tui_workbench.targets.gpu.fleet import Fleet, MachineState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tui_workbench.core.model import ComputeTarget

NOW = EPOCH + 7200
"""The time on the screens: two hours after the first run."""

SCRIPT = '''"""Train a small network on the handwritten digits."""

import argparse

import workbench


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    loss = 2.3
    for epoch in range(1, options.epochs + 1):
        loss *= 1 - options.lr  # a stand-in for the training
        workbench.log("loss", loss, step=epoch)
        print(f"epoch {epoch}/{options.epochs}  loss {loss:.4f}")


main()
'''
LOG = "".join(f"epoch {epoch}/20  loss {loss:.4f}\n" for epoch, loss in enumerate(falling(2.3), 1))
TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 22, in <module>
    main()
  File "train.py", line 9, in main
    parser.add_argument("--lr", type=float, default=0.1)
ValueError: --lr must be less than 1, and is 9
"""
README = """# Digits

A small network that reads **handwritten digits**.

1. Run `train.py` on `local`.
2. Compare the runs with different values of `--lr`.

| option | default |
|---|---|
| `--lr` | 0.1 |
| `--epochs` | 20 |
"""


@pytest.fixture(scope="session", autouse=True)
def imported_screens() -> None:
    """Import the screens that the program imports when they are opened, so that no test takes the time of an import."""
    for name in ("dashboard.dashboard", "details.run_details", "runs.compare", "machines.machine", "gpu.monitor_screen",
                 "projects.start_screen", "dialogs.palette", "project_screens"):  # fmt: skip
        importlib.import_module(f"tui_workbench.ui.{name}")


@pytest.fixture
def home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a home directory whose path always has the same length, for screens with whole paths."""
    path = Path(tempfile.mkdtemp(prefix="wb-", dir="/tmp"))
    monkeypatch.setenv("HOME", str(path))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(autouse=True)
def surroundings(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the clock, the time zone, the language, the terminal, the user and the current folder."""
    variables = {"TZ": "UTC", "LC_ALL": "C.UTF-8", "TERM": "xterm-256color", "COLORTERM": "truecolor", "USER": "ada",
                 "LOGNAME": "ada"}  # fmt: skip
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(home)
    time.tzset()
    monkeypatch.setattr(time, "time", lambda: NOW)
    monkeypatch.setattr("tui_workbench.ui.gpu.monitor_pane.Fleet", FakeFleet)
    yield
    monkeypatch.undo()
    time.tzset()


class FakeFleet(Fleet):
    """The states of two machines, without reading the GPUs of this machine."""

    def follow(self, targets: Iterable[ComputeTarget]) -> None: ...

    def read_each(self) -> Iterator[bool]:
        yield from [False] * len(self.states)

    @property
    def states(self) -> tuple[MachineState, ...]:
        busy = machine(
            reading(0), rest(1), name="gpu-box", processes=(process(), process(4243)), address="ada@192.0.2.7"
        )
        unread = MachineState("local", ("local",), problem="no GPU driver", remedy="Install the driver of your GPU.")
        return (busy, unread)


@pytest.fixture
def digits(home: Path) -> Project:
    """Return a project without runs in the home directory. Its Python is not installed, so its version is fixed."""
    (home / "env" / "bin").mkdir(parents=True)
    (home / "env" / "pyvenv.cfg").write_text("version = 3.12.4\n")
    (home / "env" / "bin" / "python").write_text("#!/bin/sh\nexit 1\n")
    (home / "env" / "bin" / "python").chmod(0o755)
    root = home / "digits"
    (root / "aml_config").mkdir(parents=True)
    files = {
        "train.py": SCRIPT,
        "eval.py": "print('accuracy 0.97')\n",
        "readme.md": README,
        "aml_config/local.compute": "type: local\npythonLocation: ~/env/bin/python\n",
        "aml_config/local.runconfig": (
            "Target: local\nFramework: Python\nTrackedRun: false\nArgumentVector:\n  - $file\n  - --lr\n  - '0.1'\n"
            "EnvironmentVariables:\n  OMP_NUM_THREADS: '4'\n"
        ),
        "aml_config/gpu-box.compute": "type: remotedocker\naddress: 192.0.2.7\nusername: ada\n"
        "baseDockerImage: pytorch/pytorch\nnvidiaDocker: true\n",
        "aml_config/gpu-box.runconfig": "Target: gpu-box\nFramework: PyTorhc\nArgumentVector:\n  - $file\n",
    }
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf-8")
    return Project.find(str(root))


@pytest.fixture
def past(digits: Project) -> Project:
    """Return the project with six ended runs; the last one failed."""
    for number in range(1, 6):
        past_run(
            digits,
            number,
            script="train.py" if number != 4 else "eval.py",
            target="local" if number != 3 else "gpu-box",
            arguments=("--lr", str(number / 10)),
            exit_code=0,
            seconds=60.0 * number,
            curves={"loss": falling(float(number)), "accuracy": [1 - value / 9 for value in falling(float(number))]},
            output=LOG.encode(),
            files={"outputs/model.txt": b"weights\n" * 4000},
        )
    past_run(digits, 6, state=RunState.FAILED, exit_code=1, arguments=("--lr", "9"), seconds=3.0,
             output=(LOG[:60] + "\n" + TRACEBACK).encode())  # fmt: skip
    return digits
