"""A controller killed after any call to its engine is replaced, and no call has an effect twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.targets.docker_fixtures import DockerHarness
from tests.targets.harness import Script
from tui_workbench.targets.docker import docker_target
from tui_workbench.targets.docker.docker_target import DockerTarget
from tui_workbench.targets.docker.engine import Engine
from tui_workbench.targets.hosts.manifest import FileList

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui_workbench.core.model import RunSpec
    from tui_workbench.targets.values import Outcome

pytestmark = pytest.mark.docker

NEVER = -1


class Died(BaseException):
    """Stands for a killed process."""


class MortalEngine:
    """An engine whose caller dies after call number `last`; `calls` counts the calls."""

    def __init__(self, engine: Engine, calls: list[str], last: int) -> None:
        self._engine, self._calls, self._last = engine, calls, last

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._engine, name)

        def call(*arguments: Any, **options: Any) -> Any:
            answer = method(*arguments, **options)
            self._calls.append(name)
            if len(self._calls) == self._last:
                raise Died
            return answer

        return call


class Journal:
    """The events of a run, which survive its controllers."""

    prepared = started = False
    ending: Outcome | None = None


def drive(target: DockerTarget, spec: RunSpec, journal: Journal) -> None:
    """Execute the remaining steps like a controller."""
    plan = target.plan(spec)
    if not journal.prepared:
        target.prepare(spec, plan, lambda: FileList.of(()))
        journal.prepared = True
    if not journal.started:
        target.start(spec, plan, {})
        journal.started = True
    if journal.ending is None:
        journal.ending = target.wait(spec, NEVER)
    target.collect(spec)
    target.release(spec)


def mortal(harness: DockerHarness, last: int) -> tuple[DockerTarget, list[str]]:
    """Return a target that is connected to such an engine, and the calls of the engine."""
    target, calls = harness.target(), list[str]()
    assert isinstance(target, DockerTarget)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(docker_target, "Engine", lambda *where: MortalEngine(Engine(*where), calls, last))
        assert target.check() == []
    assert calls == []
    return target, calls


@pytest.mark.docker
@pytest.mark.parametrize("kind", ["localdocker", "shellless"])
def test_controller_killed_after_any_call_is_replaced(kind: str, request: pytest.FixtureRequest) -> None:
    harness: DockerHarness = request.getfixturevalue(f"{kind}_harness")
    script = Script(output="once\n", exit_code=3)
    drive(mortal(harness, 0)[0], harness.spec(script), Journal())  # from here on, the content of the image is known
    target, calls = mortal(harness, 0)
    drive(target, harness.spec(script), Journal())
    assert {"create", "start", "wait", "remove"} <= set(calls)
    for last in range(1, len(calls) + 1):
        spec, journal = harness.spec(script), Journal()
        with pytest.raises(Died):
            drive(mortal(harness, last)[0], spec, journal)
        drive(mortal(harness, 0)[0], spec, journal)
        where = f"killed after {calls[:last]}"
        assert journal.ending is not None
        assert journal.ending.exit_code == 3, where
        assert harness.log(spec) == b"once\n", where
        assert harness.engine.containers() == [], where
    harness.close()
