"""Docker engines for the tests of targets, and the conformance harness of container targets."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import require
from tests.engines import BARE_IMAGE, IMAGES, PYTHON_IMAGE, DockerEngine, docker_engine, load_images
from tests.targets.harness import PYTHON, Harness, Script
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.waiting import Interrupted
from tui_workbench.targets.docker.container import container_name
from tui_workbench.targets.docker.docker_target import DockerTarget
from tui_workbench.targets.hosts.host import Entry, LocalHost
from tui_workbench.targets.hosts.manifest import FileList

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.machines import Machine
    from tui_workbench.core.model import RunSpec
    from tui_workbench.targets.base.protocol import Target
    from tui_workbench.targets.ssh.ssh_host import SshHost


@pytest.fixture(scope="session")
def session_engine() -> Iterator[DockerEngine]:
    """One engine for all tests of a session; a test that restarts or fills an engine starts another one.

    Like many production engines, it keeps few logs of containers.
    """
    with docker_engine(options=["--log-opt", "max-size=20k", "--log-opt", "max-file=2"], images=IMAGES) as engine:
        yield engine


@pytest.fixture
def engine(session_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerEngine]:
    """Return the session's engine as the local one; it holds only the test images when the test begins and ends."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{session_engine.socket}")
    yield session_engine
    for name in session_engine.containers():
        session_engine.docker("rm", "--force", name)


@pytest.fixture(scope="session")
def session_gpubox_engine(gpubox: Machine) -> Iterator[DockerEngine]:
    """Return the Docker engine of the other machine, with PYTHON_IMAGE."""
    require("dockerd")
    engine = DockerEngine(gpubox.folder / "docker", machine=gpubox)
    engine.start()
    load_images(engine)
    yield engine
    engine.destroy()


@pytest.fixture
def gpubox_engine(gpubox: Machine, session_gpubox_engine: DockerEngine) -> Iterator[DockerEngine]:
    """Return the other machine's engine, without containers and runs when the test begins and ends."""
    session_gpubox_engine.make_sure()
    yield session_gpubox_engine
    shutil.rmtree(gpubox.home() / ".workbench-tui", ignore_errors=True)
    for name in session_gpubox_engine.containers():
        session_gpubox_engine.docker("rm", "--force", name)


class Follower:
    """Wait for a run in a thread until stopped."""

    def __init__(self, target: Target, spec: RunSpec) -> None:
        self._reading, self._writing = os.pipe()
        self._thread = threading.Thread(target=self._follow, args=(target, spec))
        self._thread.start()

    def _follow(self, target: Target, spec: RunSpec) -> None:
        with contextlib.suppress(Interrupted):
            target.wait(spec, self._reading)

    def close(self) -> None:
        os.close(self._writing)
        self._thread.join()
        os.close(self._reading)


class DockerHarness(Harness):
    """Runs in containers of this machine's engine."""

    inherits_environment = False

    def __init__(self, folder: Path, engine: DockerEngine, image: str = PYTHON_IMAGE) -> None:
        super().__init__(folder)
        self.engine = engine
        self.image = image
        self._targets: list[DockerTarget] = []
        self._followers: dict[str, Follower] = {}

    def target(self) -> Target:
        target = DockerTarget(self.compute_target(), LocalHost())
        self._targets.append(target)
        return target

    def compute_target(self) -> ComputeTarget:
        return ComputeTarget(
            name="docker",
            path=str(self.folder / "project" / "aml_config" / "docker.compute"),
            type="localdocker",
            base_docker_image=self.image,
            native_shared_directory=str(self.folder / "share"),
        )

    def write(self, path: Path, script: Script) -> None:
        # Not every image has a `sleep`.
        sleep = '[sys.executable, "-c", "import time; time.sleep(600)"]'
        path.write_text(PYTHON.format(script=tuple(script)).replace('["sleep", "600"]', sleep))

    def start(self, spec: RunSpec) -> None:
        target = self.target()
        assert isinstance(target, DockerTarget)
        plan = target.plan(spec)
        target.prepare(spec, plan, lambda: FileList.of(()))
        target.start(spec, plan, {})

    def lose(self, spec: RunSpec) -> None:
        """Remove the container without the workbench."""
        self.engine.docker("rm", "--force", container_name(spec.run_id))

    def until_written(self, spec: RunSpec, text: str) -> None:
        """Wait for the text while a thread follows the run like a controller."""
        if spec.run_id not in self._followers:
            self._followers[spec.run_id] = Follower(self.target(), spec)
        super().until_written(spec, text)

    def close(self) -> None:
        for follower in self._followers.values():
            follower.close()
        super().close()
        for target in self._targets:
            target.close()


@pytest.fixture
def localdocker_harness(tmp_path: Path, engine: DockerEngine) -> Harness:
    return DockerHarness(tmp_path, engine)


@pytest.fixture
def shellless_harness(tmp_path: Path, engine: DockerEngine) -> Harness:
    """Return a harness whose image has no shell, so that the output comes from the engine's log."""
    return DockerHarness(tmp_path, engine, BARE_IMAGE)


class RemoteDockerHarness(DockerHarness):
    """Runs in containers on the other machine, over SSH."""

    def __init__(self, folder: Path, engine: DockerEngine, host: SshHost) -> None:
        super().__init__(folder, engine)
        self._host = host

    def compute_target(self) -> ComputeTarget:
        return (
            super()
            .compute_target()
            ._replace(type="remotedocker", address=self._host.login.address, native_shared_directory="")
        )

    def target(self) -> Target:
        target = DockerTarget(self.compute_target(), self._host)
        self._targets.append(target)
        return target

    def start(self, spec: RunSpec) -> None:
        target = self.target()
        assert isinstance(target, DockerTarget)
        plan = target.plan(spec)
        target.prepare(spec, plan, lambda: files_of(Path(spec.working_directory)))
        target.start(spec, plan, {})


def files_of(folder: Path) -> FileList:
    """Return the files of a folder, for a sync."""
    return FileList.of(
        Entry(str(path.relative_to(folder)), f"{path.stat().st_mtime_ns}", path.stat().st_size)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    )


@pytest.fixture
def remotedocker_harness(tmp_path: Path, gpubox_engine: DockerEngine, host: SshHost) -> Harness:
    return RemoteDockerHarness(tmp_path, gpubox_engine, host)
