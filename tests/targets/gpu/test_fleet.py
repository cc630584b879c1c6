"""The GPUs of many machines and their recent load."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import pytest

from tests.faults.support import until
from tests.gpu.standin import REST, Standin, gpu
from tui_workbench.core.model import ComputeTarget, Problem
from tui_workbench.targets.gpu import fleet as fleets
from tui_workbench.targets.gpu.feed import Feed
from tui_workbench.targets.gpu.fleet import CELL_SECONDS, Fleet, MachineState, RecentCurves
from tui_workbench.targets.gpu.sample import Device, Note, Reading, Sample
from tui_workbench.targets.hosts import contacts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOCAL = ComputeTarget("local", "/p/local.compute", "local")
DOCKER = ComputeTarget("docker", "/p/docker.compute", "localdocker")
BOX = ComputeTarget("box", "/p/box.compute", "remote", address="no-such-host.invalid", username="me")
T4 = Device(0, "GPU-0", "Tesla T4", 1000.0, 70.0)
START = 1_000_000.0


def curves(*values: float | None, every: float = CELL_SECONDS) -> RecentCurves:
    made = RecentCurves()
    for place, value in enumerate(values):
        made.add(START + place * every, Reading(0, value, 500.0, 35.0), T4)
    return made


def known(values: object) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values]  # type: ignore[attr-defined]


def test_curve_values_are_means_of_two_seconds() -> None:
    made = curves(10, 30, 50, None, every=1)
    assert known(made.last(made.utilization, 2, made.newest)) == [20, 50]
    assert known(made.last(made.memory, 2, made.newest)) == [50, 50]
    assert known(made.last(made.power, 2, made.newest)) == [35, 35]


def test_time_without_samples_is_nan() -> None:
    made = curves(10, 20)
    made.add(START + 4 * CELL_SECONDS, Reading(0, 30.0), T4)
    assert known(made.last(made.utilization, 6, made.newest)) == [None, 10, 20, None, None, 30]


def test_ended_curve_is_padded_with_nan() -> None:
    made = curves(10, 20)
    assert known(made.last(made.utilization, 4, made.newest + 2)) == [10, 20, None, None]
    assert known(made.last(made.utilization, 4, made.newest + 9)) == [None] * 4


def test_curve_length_is_limited() -> None:
    made = curves(*[1.0] * (5 * fleets.MOST_CELLS))
    assert len(made.utilization) <= 2 * fleets.MOST_CELLS


def state_of(fleet: Fleet, ready: Callable[[MachineState], object]) -> MachineState:
    def look() -> MachineState | None:
        fleet.read()
        (state,) = fleet.states
        return state if ready(state) else None

    found: MachineState = until(look, "what the machine tells")
    return found


def test_targets_on_one_machine_share_its_state(home: Path, standin: Standin) -> None:
    standin.write(gpu(0, util=37), gpu(1, REST))
    with Fleet([DOCKER, LOCAL]) as fleet:
        state = state_of(fleet, lambda state: state.sample)
        assert state.targets == ("docker", "local")
        assert state.address == ""
        assert state.machine is not None
        assert [each.number for each in state.machine.devices] == [0, 1]
        assert known(state.curves[0].last(state.curves[0].utilization, 1, state.newest)) == [37]
        assert state.problem == ""


def test_machine_without_driver_has_a_problem(home: Path, standin: Standin) -> None:
    standin.write()
    with Fleet([LOCAL]) as fleet:
        state = state_of(fleet, lambda state: state.machine)
        assert state.problem == "the NVIDIA driver lists no GPU"
        assert not fleet.read()


def test_unreachable_machine_does_not_affect_others(home: Path, standin: Standin) -> None:
    standin.write(gpu(0))
    contacts.record(BOX)
    with Fleet([BOX, LOCAL]) as fleet:

        def both() -> tuple[MachineState, MachineState] | None:
            fleet.read()
            box, here = fleet.states
            return (box, here) if box.problem and here.sample else None

        box, here = until(both, "both machines")
        assert (box.targets, box.address) == (("box",), "me@no-such-host.invalid")
        assert box.problem.startswith("unreachable: ")
        assert "no-such-host.invalid" in box.problem
        assert here.problem == ""


def test_machine_is_read_once_the_user_has_contacted_it(home: Path) -> None:
    with Fleet([BOX]) as fleet:
        assert fleet.read()
        (state,) = fleet.states
        assert (state.problem, state.is_contacted) == ("not contacted yet", False)
        assert not fleet.read()
        contacts.record(BOX)
        assert fleet.read()
        (state,) = fleet.states
        assert (state.problem, state.is_contacted) == ("", True)


def test_retry_contacts_the_machine(home: Path) -> None:
    with Fleet([BOX]) as fleet:
        fleet.read()
        fleet.retry(fleet.states[0].key)
        state = state_of(fleet, lambda state: state.problem.startswith("unreachable: "))
        assert state.is_contacted
        assert contacts.is_contacted(BOX)


def test_broken_target_file_is_reported(home: Path) -> None:
    problem = Problem("/p/bad.compute", 3, 1, "error", "yaml", "this is no YAML", "Correct it.")
    with Fleet([ComputeTarget("bad", "/p/bad.compute", "", problem=problem)]) as fleet:
        state = state_of(fleet, lambda state: state.problem)
        assert (state.problem, state.remedy) == ("this is no YAML", "Correct it.")
        assert state.address == "bad.compute"  # no address would mean this machine


def test_target_with_plain_text_secret_is_refused(home: Path) -> None:
    with Fleet([BOX._replace(password="hunter2")]) as fleet:
        state = state_of(fleet, lambda state: state.problem)
        assert "is a plain-text secret" in state.problem
        assert "--move-secrets" in state.remedy


class FakeFeed:
    """A feed of the records that a test appends."""

    made: ClassVar[list[FakeFeed]] = []

    def __init__(self, target: ComputeTarget, past: int) -> None:
        self.records: list[Note | Sample] = []
        self.is_open = True
        self.made.append(self)

    def read(self) -> list[Note | Sample]:
        records, self.records = self.records, []
        return records

    def close(self) -> None:
        self.is_open = False


@pytest.fixture
def feeds(monkeypatch: pytest.MonkeyPatch) -> list[FakeFeed]:
    """Return the feeds that a fleet has opened."""
    monkeypatch.setattr(FakeFeed, "made", [])
    monkeypatch.setattr(fleets, "Feed", FakeFeed)
    return FakeFeed.made


def test_device_notes_stay_and_machine_problems_end(feeds: list[FakeFeed]) -> None:
    with Fleet([LOCAL]) as fleet:
        fleet.read()
        feeds[0].records = [Note(1.0, "nvidia-smi does not answer"), Note(2.0, "Xid 79 on GPU 0", 0)]
        assert fleet.read()
        assert fleet.states[0].problem == "nvidia-smi does not answer"
        feeds[0].records = [Sample(3.0, (Reading(0, 1.0),))]
        assert fleet.read()
        assert fleet.states[0].problem == ""
        assert [note.text for note in fleet.states[0].notes] == ["Xid 79 on GPU 0"]


def test_silence_is_reported_once_per_second(monkeypatch: pytest.MonkeyPatch, home: Path, standin: Standin) -> None:
    standin.write(gpu(0))
    with Fleet([LOCAL]) as fleet:
        state = state_of(fleet, lambda state: state.sample)
        assert state.sample is not None
        now = state.sample.time
        monkeypatch.setattr(Feed, "read", lambda self: [])
        monkeypatch.setattr("tui_workbench.targets.gpu.fleet.time.time", lambda: now + 1)
        assert not fleet.read()
        monkeypatch.setattr("tui_workbench.targets.gpu.fleet.time.time", lambda: now + 7.5)
        assert fleet.read()
        assert fleet.states[0].silent == 7.5
        assert not fleet.read()


def test_follow_closes_only_removed_machines(home: Path, standin: Standin) -> None:
    standin.write(gpu(0))
    with Fleet([LOCAL, BOX]) as fleet:
        until(lambda: fleet.read() and fleet.states[0].sample, "a sample")
        fleet.follow([LOCAL])
        (state,) = fleet.states
        assert state.sample is not None
        fleet.follow([])
        assert fleet.states == ()


def test_changed_login_restarts_the_feed(feeds: list[FakeFeed]) -> None:
    with Fleet([BOX]) as fleet:
        fleet.read()
        fleet.follow([BOX._replace(base_docker_image="other")])
        fleet.read()
        assert [feed.is_open for feed in feeds] == [True]
        fleet.follow([BOX._replace(private_key="~/.ssh/other")])
        fleet.read()
        assert [feed.is_open for feed in feeds] == [False, True]
