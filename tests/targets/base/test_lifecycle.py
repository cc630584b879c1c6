"""Behaviors of targets that need preparation, by the numbers in `tui_workbench.targets.base.protocol`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.targets.docker_fixtures import DockerHarness, files_of
from tests.targets.harness import Harness, Script, harness_parameters
from tui_workbench.core.model import RunSpec
from tui_workbench.targets.base.protocol import Target

NEVER = -1
HARNESSES = ("localdocker", "shellless", "remotedocker", "remote")


@pytest.fixture(params=harness_parameters(*HARNESSES))
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    harness: Harness = request.getfixturevalue(f"{request.param}_harness")
    yield harness
    harness.close()


def staged(harness: Harness) -> Target:
    target = harness.target()
    assert isinstance(target, Target)
    return target


def prepare(harness: Harness, spec: RunSpec) -> None:
    target = staged(harness)
    target.prepare(spec, target.plan(spec), lambda: files_of(Path(spec.working_directory)))


def test_12_prepare_can_be_repeated_and_starts_nothing(harness: Harness) -> None:
    spec = harness.spec(Script(output="once\n"))
    prepare(harness, spec)
    prepare(harness, spec)
    assert not staged(harness).started(spec)
    staged(harness).start(spec, staged(harness).plan(spec), {})
    prepare(harness, spec)
    assert staged(harness).wait(spec, NEVER).exit_code == 0
    prepare(harness, spec)
    assert harness.log(spec) == b"once\n"


def test_13_collect_fetches_all_output_and_can_be_repeated(harness: Harness) -> None:
    text = "".join(f"line {number}\n" for number in range(5_000))
    spec = harness.spec(Script(output=text, exit_code=2))
    harness.start(spec)
    assert staged(harness).wait(spec, NEVER).exit_code == 2
    staged(harness).collect(spec)
    staged(harness).collect(spec)
    assert harness.log(spec) == text.encode()


def test_14_release_frees_everything_but_keeps_the_result(harness: Harness) -> None:
    spec = harness.spec(Script(output="done\n", exit_code=3))
    harness.start(spec)
    staged(harness).wait(spec, NEVER)
    staged(harness).collect(spec)
    staged(harness).release(spec)
    staged(harness).release(spec)
    assert staged(harness).has_ended(spec)
    assert staged(harness).stop(spec, grace=30) is False
    if isinstance(harness, DockerHarness):
        assert harness.engine.containers() == []


def test_14_run_that_never_started_can_be_released(harness: Harness) -> None:
    spec = harness.spec(Script())
    prepare(harness, spec)
    staged(harness).collect(spec)
    staged(harness).release(spec)
    assert not staged(harness).started(spec)


def test_target_can_be_used_after_close(harness: Harness) -> None:
    spec = harness.spec(Script(output="done\n"))
    target = staged(harness)
    prepare(harness, spec)
    target.close()
    target.start(spec, target.plan(spec), {})
    target.close()
    assert target.wait(spec, NEVER).exit_code == 0
