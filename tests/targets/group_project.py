"""A project with a group of two machines, and the real command line in it."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import open_folder
from tests.engines import PYTHON_IMAGE
from tests.faults.support import Workbench
from tests.machines import Machine, machine
from tests.targets.remote_fixtures import PYTHON_THERE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MEMBERS = ("box1", "box2")
IN_CONTAINER = {"type": "remotedocker", "baseDockerImage": PYTHON_IMAGE}


class Group(Workbench):
    """A project with the targets box1, box2 and both, and the run configuration `both`."""

    def __init__(self, folder: Path, machines: tuple[Machine, Machine], torch: Path) -> None:
        super().__init__(folder)
        self.machines = machines
        self._variables = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(torch), "PYTHONDONTWRITEBYTECODE": "1"}
        (folder / "aml_config").mkdir(parents=True)
        self.configure()

    def configure(self, *, box1: Any = (), box2: Any = (), both: Any = (), **runconfig: Any) -> None:
        """Write the configuration files with these changes."""
        for name, there, changes in zip(MEMBERS, self.machines, (box1, box2), strict=True):
            login = {"type": "remote", "address": there.address, "username": "research", "pythonLocation": PYTHON_THERE}
            self._write(f"{name}.compute", login | dict(changes))
        group = {"type": "group", "members": list(MEMBERS), "networkInterface": "wire"}
        self._write("both.compute", group | dict(both))
        configuration = {"Target": "both", "Framework": "Python", "ProcessesPerNode": 2}
        self._write("both.runconfig", {**configuration, "EnvironmentVariables": self._variables, **runconfig})

    def configure_others(self, **runconfig: Any) -> None:
        """Write a run configuration for each member alone, with these changes."""
        for name in MEMBERS:
            self._write(f"{name}.runconfig", {"Target": name, "Framework": "Python", **runconfig})

    def add_containers(self, **runconfig: Any) -> None:
        """Write the target `docker` on the first machine, and the group `mixed` of `docker` and box2."""
        docker = {"address": self.machines[0].address, "username": "research", **IN_CONTAINER}
        self._write("docker.compute", docker)
        self._write("docker.runconfig", {"Target": "docker", "Framework": "Python", **runconfig})
        self._write("mixed.compute", {"type": "group", "members": ["docker", "box2"], "networkInterface": "wire"})
        path = self.folder / "aml_config" / "both.runconfig"
        torch = [self._variables["PYTHONPATH"]]
        changes = {"Target": "mixed", "DataReferences": torch, **runconfig}
        self._write("mixed.runconfig", json.loads(path.read_text()) | changes)

    def _write(self, name: str, values: dict[str, Any]) -> None:
        (self.folder / "aml_config" / name).write_text(json.dumps(values))

    def processes(self) -> list[int]:
        """Return the IDs on this machine of all processes of ranks and launchers."""
        return [pid for there in self.machines for pid in there.processes("python3")]


@pytest.fixture(scope="module")
def box2(gpubox: Machine, key: Path) -> Iterator[Machine]:
    """Another machine, connected to gpubox by the interface `wire` of both."""
    with open_folder() as folder, machine("box2", folder, key) as made:
        gpubox.wire_to(made)
        yield made


@pytest.fixture
def group(tmp_path: Path, gpubox: Machine, box2: Machine, ssh_folder: Path, torch_path: Path) -> Iterator[Group]:
    with (ssh_folder / "known_hosts").open("a") as file:
        file.write(box2.known_hosts_line)
    project = Group(tmp_path / "project", (gpubox, box2), torch_path)
    yield project
    project.cancel_active()
    for there in project.machines:
        (there.home() / "go").unlink(missing_ok=True)
        shutil.rmtree(there.home() / ".workbench-tui", ignore_errors=True)
