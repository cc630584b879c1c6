"""A run of an agent is ended on every target, even if a file in its directory says that it has ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.targets.harness import Harness, LocalHarness, Script, harness_parameters
from tui_workbench.runs.lifecycle import agent_ends
from tui_workbench.runs.store import agent_runs

if TYPE_CHECKING:
    from collections.abc import Iterator

NEVER = -1


@pytest.fixture
def local_harness(tmp_path: Path) -> Harness:
    return LocalHarness(tmp_path)


@pytest.fixture(params=harness_parameters("local", "localdocker", "remote", "slurm"))
def harness(request: pytest.FixtureRequest, home: Path) -> Iterator[Harness]:
    harness: Harness = request.getfixturevalue(f"{request.param}_harness")
    yield harness
    harness.close()


def test_run_with_a_forged_end_is_ended(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    # The login of the harness is not that of the user.
    monkeypatch.setattr(agent_ends, "target_for", lambda _: harness.target())
    spec = harness.spec(Script(output="began\n", waits=True))
    agent_runs.add(spec, "tester")
    harness.start(spec)
    harness.until_written(spec, "began")
    forged = Path(spec.run_directory, "exit")
    forged.write_text("0\n")
    assert agent_ends.end_run_of_agent(spec.run_directory, grace=10.0)
    assert agent_runs.times_of(spec.run_directory).ended
    forged.unlink(missing_ok=True)
    assert harness.target().wait(spec, NEVER).exit_code != 0
