"""Processes outside the session in which the keyring is unlocked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import Installed
from tests.faults.support import until
from tests.runs.notify.conftest import Topic, add, results
from tests.runs.support import make_run
from tui_workbench.projects.project import Project
from tui_workbench.runs.notify import buses
from tui_workbench.runs.notify.announcing import announce
from tui_workbench.runs.notify.channels import END
from tui_workbench.targets.hosts.secrets import NO_BUS

BUS = "DBUS_SESSION_BUS_ADDRESS"


@pytest.fixture
def hidden_bus(keyring: Path, connections: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return another address of the bus of the keyring."""
    (connections / "hidden").hardlink_to(connections / "bus")
    monkeypatch.setenv(BUS, f"unix:path={connections}/hidden")
    return f"unix:path={connections}/hidden"


@pytest.fixture
def channel(hidden_bus: str, shell: Installed, topic: Topic, connections: Path) -> None:
    """Add a channel. Its keyring is then not on the default bus of the user."""
    add(shell, "phone", topic.url)
    (connections / "bus").unlink()


def announce_outside(project: Project, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Announce the end of a run in a process without a bus, and wait until its notification has a result."""
    run = make_run(project, f"p_{number}", number, state="completed")
    with monkeypatch.context() as outside:
        outside.delenv(BUS)
        announce(run, END)
    until(lambda: results(run) == {"phone-end-1": True}, "the notification")


@pytest.mark.usefixtures("channel")
def test_bus_of_a_submission_is_used_by_other_processes(
    shell: Installed, project: Project, topic: Topic, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (recorded,) = home.rglob("buses/*.json")
    recorded.unlink()
    assert shell.submit("train.py", "0").code == 0
    announce_outside(project, 2, monkeypatch)
    with monkeypatch.context() as other_session:
        other_session.setenv(BUS, "unix:path=/nowhere")
        assert shell.submit("train.py", "0").code == 0
    announce_outside(project, 4, monkeypatch)
    assert {"✓ hello.py [2] completed", "✓ hello.py [4] completed"} <= set(topic.titles)


@pytest.mark.usefixtures("channel")
def test_default_bus_of_the_user_is_used(
    project: Project, topic: Topic, connections: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (connections / "hidden").rename(connections / "bus")
    announce_outside(project, 1, monkeypatch)
    assert topic.titles == ["✓ hello.py [1] completed"]


@pytest.mark.usefixtures("channel")
def test_message_without_a_reachable_keyring_names_the_cause(
    shell: Installed, connections: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (connections / "hidden").rename(connections / "away")
    monkeypatch.delenv(BUS)
    tested = shell.run("notify", "test", "phone")
    assert (tested.code, tested.out) == (1, f"phone: cannot read its URL: {NO_BUS}\n")


def test_bus_is_not_recorded_without_channels(
    shell: Installed, home: Path, hidden_bus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shell.submit("train.py", "0").code == 0
    assert not [path for path in home.rglob("*") if path.is_file() and hidden_bus.encode() in path.read_bytes()]


@pytest.mark.usefixtures("channel")
def test_newest_buses_are_recorded(home: Path, hidden_bus: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = (path for path in home.rglob("buses/*.json"))
    assert json.loads(file.read_text()) == [hidden_bus]
    addresses = [f"unix:path=/{number}" for number in range(buses.MOST_BUSES)]
    for address in [*addresses, addresses[1]]:
        monkeypatch.setenv(BUS, address)
        buses.remember_bus()
    assert json.loads(file.read_text()) == [
        addresses[1],
        *(each for each in reversed(addresses) if each != addresses[1]),
    ]
