"""A project with a target on another machine, and the real command line in it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.support import WAITS, Result, Workbench, until
from tests.machines import Machine
from tests.targets.remote_fixtures import PYTHON_THERE

if TYPE_CHECKING:
    from collections.abc import Iterator

GO = "/home/research/go"
"""A file on the machine; scripts wait until it exists."""


class Remote(Workbench):
    """A project with the target `box`, and the command line in it."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        super().__init__(folder)
        self.machine = machine
        (folder / "aml_config").mkdir(parents=True)
        self.configure()

    def configure(self, compute: dict[str, Any] | None = None, **runconfig: Any) -> None:
        """Write the configuration files with these changes."""
        target = {"type": "remote", "address": self.machine.address, "username": "research",
                  "pythonLocation": PYTHON_THERE, **(compute or {})}  # fmt: skip
        configuration = {"Target": "box", "Framework": "Python", "TrackedRun": True, **runconfig}
        for name, values in (("box.compute", target), ("box.runconfig", configuration)):
            (self.folder / "aml_config" / name).write_text(json.dumps(values))

    def there(self, run_id: str = "") -> Path:
        """Return the run's directory on the other machine, or the folder of all runs, as a path on this machine."""
        return self.machine.home() / ".workbench-tui" / "runs" / run_id

    def begin(self, then: str = "", *, after: str = "") -> str:
        """Start a script that waits for `go_on` between two parts, and return the run's ID when it waits."""
        self.write(f"{after}{WAITS}{then}")
        run_id = self.detach("train.py", GO, configuration="box")
        until(lambda: "began" in self.log(run_id))
        return run_id

    def go_on(self) -> None:
        """Continue the waiting scripts."""
        (self.machine.home() / "go").touch()

    def follow(self, run_id: str) -> Result:
        return self.run("logs", "-f", run_id)


@pytest.fixture
def box(tmp_path: Path, gpubox: Machine, ssh_folder: Path) -> Iterator[Remote]:
    workbench = Remote(tmp_path / "project", gpubox)
    yield workbench
    workbench.cancel_active()
    shutil.rmtree(gpubox.home() / ".workbench-tui", ignore_errors=True)
    (gpubox.home() / "go").unlink(missing_ok=True)
