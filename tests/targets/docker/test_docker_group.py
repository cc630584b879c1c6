"""Following several containers of a real engine on this machine with one group."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engines import PYTHON_IMAGE, DockerEngine
from tests.faults.support import until
from tests.runs.support import record_of
from tests.targets.group_support import Calls
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.targets.docker.container import KIND_LABEL, RUN_KIND, container_name
from tui_workbench.targets.docker.docker_group import DockerGroup
from tui_workbench.targets.docker.engine import Engine
from tui_workbench.targets.hosts.host import LocalHost

FIRST, SECOND = "exp_1", "exp_2"


class Containers:
    """The runs `exp_1` and `exp_2`, whose containers wait."""

    def __init__(self, folder: Path, engine: DockerEngine) -> None:
        self._folder = folder
        self._is_missing = False
        self.engine = engine
        self.group = DockerGroup(LocalHost(), self._connect)
        self.calls = {name: Calls() for name in (FIRST, SECOND)}
        self.ended: list[str] = []
        for name in self.calls:
            self.start(name)

    def _connect(self) -> Engine:
        if self._is_missing:
            raise ConfigurationError("the engine has no socket", remedy="Start it.")
        return Engine(self.engine.socket, "this machine")

    def lose_socket(self) -> None:
        self._is_missing = True

    def restore_socket(self) -> None:
        self._is_missing = False

    def start(self, name: str) -> None:
        words = ("--name", container_name(name), "--init", "--label", f"{KIND_LABEL}={RUN_KIND}", PYTHON_IMAGE)
        self.engine.docker("run", "--detach", *words, "sleep", "1000")

    def docker(self, verb: str, name: str, *options: str) -> None:
        self.engine.docker(verb, *options, container_name(name))

    def add(self, name: str) -> None:
        self.group.add(record_of(self._folder / ".workbench" / "runs" / name).spec, self.calls[name])

    def follow(self) -> None:
        """Follow both runs until the group has seen them."""
        for name in self.calls:
            self.add(name)
        self.until(lambda: all(calls.names for calls in self.calls.values()))

    def until(self, condition: Callable[[], object]) -> None:
        """Follow the runs until the condition holds."""

        def seen() -> object:
            self.ended += self.group.wait(-1, 0.05)
            return condition()

        until(seen)

    def until_ended(self, *names: str) -> None:
        self.until(lambda: sorted(self.ended) == sorted(names))


@pytest.fixture
def containers(tmp_path: Path, engine: DockerEngine) -> Iterator[Containers]:
    made = Containers(tmp_path / "project", engine)
    yield made
    made.group.close()


def test_each_run_ends_once_when_its_container_ends(containers: Containers) -> None:
    containers.follow()
    containers.docker("kill", FIRST)
    containers.until_ended(FIRST)
    containers.docker("rm", FIRST)
    containers.docker("stop", SECOND)
    containers.until_ended(FIRST, SECOND)
    assert containers.group.wait(-1, 0.0) == {}


def test_removed_container_ends_its_run(containers: Containers) -> None:
    containers.follow()
    containers.docker("rm", FIRST, "--force")
    containers.until_ended(FIRST)


def test_containers_that_ended_before_are_found(containers: Containers) -> None:
    containers.docker("kill", FIRST)
    containers.docker("rm", SECOND, "--force")
    containers.add(FIRST)
    containers.add(SECOND)
    containers.until_ended(FIRST, SECOND)


def test_run_is_found_if_its_container_ended_after_the_first_list(containers: Containers) -> None:
    containers.add(FIRST)
    containers.until(lambda: containers.calls[FIRST].names)
    containers.docker("kill", SECOND)
    containers.add(SECOND)
    containers.until_ended(SECOND)


def test_paused_container_continues(containers: Containers) -> None:
    containers.docker("pause", FIRST)
    containers.follow()
    assert containers.calls[FIRST].names == ["running"]
    containers.docker("unpause", FIRST)
    containers.docker("kill", FIRST)
    containers.until_ended(FIRST)


def test_run_that_is_no_longer_followed_does_not_end(containers: Containers) -> None:
    containers.follow()
    containers.group.remove(FIRST)
    containers.docker("kill", FIRST)
    containers.docker("kill", SECOND)
    containers.until_ended(SECOND)


def test_runs_are_unknown_until_the_engine_answers(containers: Containers) -> None:
    containers.lose_socket()
    containers.add(FIRST)
    containers.until(lambda: containers.calls[FIRST].names == ["lost"])
    containers.restore_socket()
    containers.until(lambda: containers.calls[FIRST].names[-1] == "running")


def test_wait_is_interrupted_while_the_engine_does_not_answer(containers: Containers) -> None:
    containers.engine.pause()
    reading, writing = os.pipe()
    os.close(writing)
    try:
        containers.add(FIRST)
        assert containers.group.wait(-1, 1.0) == {}
        assert containers.group.wait(reading) == {}
    finally:
        containers.engine.resume()
        os.close(reading)
    # On a slow machine, the connection to the engine may be lost before.
    containers.until(lambda: containers.calls[FIRST].names[-1:] == ["running"])
