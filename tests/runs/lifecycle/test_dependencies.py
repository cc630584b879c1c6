"""`experiment submit --after RUN[:CONDITION]`: runs that start after another run has ended."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import write_project
from tests.faults.support import until
from tests.runs.support import write_configuration, write_files
from tui_workbench.core.errors import RunNotFound, UsageError
from tui_workbench.core.model import Run, RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.lifecycle.dependencies import dependents_of
from tui_workbench.runs.store.rundir import RunDirectory

GATED = """\
import sys
with open(sys.argv[1]) as gate:
    sys.exit(int(gate.read()))
"""


class Place:
    """A project whose script waits for its exit code in a gate file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        write_project(root)
        write_files(root, {"gated.py": GATED, "next.py": "print('started')\n"})
        self.runs = Runs(Project.find(str(root)))
        os.mkfifo(self.gate)

    @property
    def gate(self) -> Path:
        return self.root / "gate"

    def first(self) -> Run:
        return self.runs.submit(RunRequest("local", "gated.py", (str(self.gate),)))

    def next(self, after: str, script: str = "next.py") -> Run:
        return self.runs.submit(RunRequest("local", script, after=after))

    def end_first(self, code: int) -> None:
        self.gate.write_text(str(code))

    def state(self, run: Run) -> tuple[str, str]:
        now = self.runs.get(run.run_id)
        return now.state, now.reason

    def ends(self, run: Run) -> tuple[str, str]:
        until(lambda: not self.runs.get(run.run_id).is_active, "its end")
        return self.state(run)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path / "project")
    yield place
    for run in place.runs.list():
        if run.is_active:
            place.runs.cancel(run.run_id, grace=0.0)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("condition", "code", "state"),
    [
        ("", 0, "completed"),
        (":ok", 1, "canceled"),
        (":any", 1, "completed"),
        (":failed", 1, "completed"),
        (":failed", 0, "canceled"),
    ],
)
def test_run_starts_if_the_other_run_ends_as_requested(place: Place, condition: str, code: int, state: str) -> None:
    first = place.first()
    second = place.next(f"{first.run_number}{condition}")
    verb = {"": "completes", ":ok": "completes", ":any": "ends", ":failed": "fails"}[condition]
    assert place.state(second) == ("queued", f"starts after gated.py [1] {verb}")
    place.end_first(code)
    ended = "failed" if code else "completed"
    reason = f"gated.py [1] has ended ({ended})" if state == "canceled" else ""
    assert place.ends(second) == (state, reason)
    assert Path(second.log_path).exists() == (state == "completed")


@pytest.mark.processes
def test_chain_ends_with_its_first_failure(place: Place) -> None:
    first = place.first()
    second = place.next(first.run_id)
    third = place.next(second.run_id)
    place.end_first(3)
    assert place.ends(second) == ("canceled", "gated.py [1] has ended (failed)")
    assert place.ends(third) == ("canceled", "next.py [2] has ended (canceled)")


@pytest.mark.processes
def test_chain_runs_in_order(place: Place) -> None:
    first = place.first()
    second = place.next(first.run_id)
    third = place.next(second.run_id)
    place.end_first(0)
    assert place.ends(third)[0] == "completed"
    runs = [place.runs.get(run.run_id) for run in (first, second, third)]
    assert [run.state for run in runs] == ["completed"] * 3
    assert runs[0].end <= runs[1].start <= runs[1].end <= runs[2].start


@pytest.mark.processes
def test_canceled_run_cancels_its_dependents(place: Place) -> None:
    first = place.first()
    second, third = place.next(first.run_id), place.next(f"{first.run_id}:any")
    assert [run.run_id for run in dependents_of(RunDirectory(first.directory))] == [second.run_id]
    place.runs.cancel(first.run_id, grace=0.0)
    assert place.ends(second) == ("canceled", "gated.py [1] has ended (canceled)")
    assert place.ends(third)[0] == "completed"


def test_waiting_run_does_not_delay_other_runs(place: Place) -> None:
    write_configuration(place.root, suffix="compute", type="local", pythonLocation=sys.executable, maxConcurrentRuns=2)
    first = place.first()
    second = place.next(first.run_id)
    assert place.ends(place.next(""))[0] == "completed"
    assert place.state(second)[0] == "queued"


def test_run_after_an_ended_run_starts_at_once(place: Place) -> None:
    first = place.next("")
    place.ends(first)
    assert place.ends(place.next(first.run_id))[0] == "completed"


def test_removed_run_cancels_its_dependents(place: Place) -> None:
    first = place.first()
    second = place.next(first.run_id)
    shutil.rmtree(first.directory)
    until(lambda: place.runs.resume() is not None and not place.runs.get(second.run_id).is_active, "its end")
    assert place.state(second) == ("canceled", "gated.py [1] was removed")
    place.end_first(0)


def test_plan_shows_the_wait(place: Place) -> None:
    first = place.first()
    steps = place.runs.plan(RunRequest("local", "next.py", after=f"{first.run_number}:any")).steps
    assert "wait in the queue: after gated.py [1] ends" in [step.title for step in steps]


def test_impossible_dependencies_are_refused(place: Place) -> None:
    with pytest.raises(RunNotFound, match="no run '7'"):
        place.next("7")
    first = place.next("")
    place.ends(first)
    with pytest.raises(UsageError, match="unknown condition 'soon'") as raised:
        place.next("1:soon")
    assert raised.value.remedy == "Write RUN:ok, RUN:any or RUN:failed."
    with pytest.raises(UsageError, match="unknown condition ''"):
        place.next("1:")
    with pytest.raises(UsageError, match=f"never start: it waits until run {first.run_id} fails"):
        place.next("1:failed")
    assert len(place.runs.list()) == 1
