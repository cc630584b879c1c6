"""Parts of `type: group` that need no other machine: merged logs, addresses and the configuration."""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.targets.fake import FakeTarget
from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.core.model import ComputeTarget, RunConfiguration, RunSpec
from tui_workbench.core.waiting import BackgroundCall
from tui_workbench.projects.project import Project
from tui_workbench.targets.base.python_environment import PythonEnvironment
from tui_workbench.targets.gpu.framework_location import spec_of
from tui_workbench.targets.group import connecting, member_reports, waiting
from tui_workbench.targets.group.collecting import join_outputs
from tui_workbench.targets.group.comparing import (
    clock_warning,
    describe_versions,
    owner_of_folder,
    require_own_folders,
    versions_of,
)
from tui_workbench.targets.group.connecting import require_connections
from tui_workbench.targets.group.group_target import GroupTarget
from tui_workbench.targets.group.member_reports import LostMembers
from tui_workbench.targets.group.merging import CHUNK, Merge
from tui_workbench.targets.group.rendezvous import NodeAddress, parse_address
from tui_workbench.targets.hosts.host import Completed, ConnectionLost, LocalHost
from tui_workbench.targets.hosts.run_times import Clock, clock_of
from tui_workbench.targets.values import Outcome


def write_logs(folder: Path, **logs: str) -> None:
    for member, text in logs.items():
        (folder / "ranks" / member).mkdir(parents=True, exist_ok=True)
        with (folder / "ranks" / member / "output.log").open("a") as file:
            file.write(text)


def test_merge_appends_complete_lines_of_each_member(tmp_path: Path) -> None:
    write_logs(tmp_path, a="a1\na2\na", b="b1\n")
    with Merge(str(tmp_path), ("a", "b"), "output.log") as merge:
        assert merge.pump()
        assert not merge.pump()
        assert (tmp_path / "output.log").read_text() == "a1\na2\nb1\n"
        write_logs(tmp_path, a="3\na4", b="b2\n")
        merge.finish()
        merge.finish()
    assert (tmp_path / "output.log").read_text() == "a1\na2\nb1\na3\nb2\na4\n"


def test_merge_of_long_logs_breaks_no_lines(tmp_path: Path) -> None:
    logs = {member: [f"{member}{number}{'.' * 80}" for number in range(CHUNK // 60)] for member in ("a", "b")}
    write_logs(tmp_path, **{member: "\n".join(lines) for member, lines in logs.items()})
    with Merge(str(tmp_path), ("a", "b"), "output.log") as merge:
        merge.finish()
    merged = (tmp_path / "output.log").read_text().splitlines()
    assert {member: [line for line in merged if line.startswith(member)] for member in logs} == logs
    assert len(merged) == sum(map(len, logs.values()))


@pytest.mark.parametrize("written", range(7))
@pytest.mark.parametrize("end", ["\n", ""])
def test_interrupted_append_is_completed(tmp_path: Path, written: int, end: str) -> None:
    """A process was killed when `written` bytes of two lines had been appended."""
    write_logs(tmp_path, a="a1\n", b="b1\n")
    with Merge(str(tmp_path), ("a", "b"), "output.log") as merge:
        merge.pump()
        write_logs(tmp_path, a=f"a2{end}", b=f"b2{end}")
        merge.finish()
    with (tmp_path / "output.log").open("r+") as file:
        file.truncate(len("a1\nb1\n") + written)
    with Merge(str(tmp_path), ("a", "b"), "output.log") as merge:
        merge.finish()
    assert (tmp_path / "output.log").read_text() == "a1\nb1\na2\nb2\n"


def run_of_group(folder: Path, **values: str) -> RunSpec:
    """Return a run in this folder on the members a and b."""
    parts = tuple(ComputeTarget(name, "", "remote") for name in "ab")
    target = group(**values)._replace(parts=parts)
    return RunSpec("p_1", str(folder), "", "", "", "train.py", (), RunConfiguration("", "", ""), target)


def fetch(run: RunSpec, member: str, second: int, **texts: str) -> None:
    """Write files of a member with this modification time."""
    (part,) = (part for part in run.parts if part.target.name == member)
    for name, text in texts.items():
        path = Path(part.run_directory, "outputs", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (second, second))


def files_in(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_outputs_fetched_again_are_removed(tmp_path: Path) -> None:
    run = run_of_group(tmp_path)
    for _ in range(2):
        for name in "ab":
            fetch(run, name, 1, **{"same.txt": name, f"{name}.pt": "model"})
        join_outputs(run)
        assert files_in(tmp_path) == {
            "outputs/a.pt": "model",
            "outputs/b.pt": "model",
            "outputs/same.txt": "a",
            "ranks/b/outputs/same.txt": "b",
        }


def test_outputs_of_a_later_attempt_replace_earlier_ones(tmp_path: Path) -> None:
    """Each member gets the files of the first attempt, and has them after the second attempt unless it changes them."""
    run = run_of_group(tmp_path)
    fetch(run, "a", 1, one="1", two="1", both="a1")
    join_outputs(run)
    fetch(run, "a", 2, one="2", both="a2")
    fetch(run, "a", 1, two="1")
    fetch(run, "b", 1, one="1")
    fetch(run, "b", 3, two="3", both="b3")
    wanted = {"outputs/one": "2", "outputs/two": "3", "outputs/both": "b3", "ranks/a/outputs/both": "a2"}
    for _ in range(2):
        join_outputs(run)
        found = files_in(tmp_path)
        assert {name: text for name, text in found.items() if text != "1"} == wanted
        assert {name for name, text in found.items() if text == "1"} <= {"ranks/a/outputs/two", "ranks/b/outputs/one"}


def test_members_with_one_home_folder_are_refused(home: Path) -> None:
    """Stand-in: both members are this machine."""
    here = LocalHost()
    for _ in range(2):
        owners = {name: owner_of_folder(here, "p_1", name) for name in ("a", "b")}
        assert owners == {"a": "a", "b": "a"}
    with pytest.raises(ConfigurationError, match="members a and b have the same home folder"):
        require_own_folders(group(), owners)
    require_own_folders(group(), {"a": "a", "b": "b"})


_ADDRESSES = b"""\
10.0.0.1 51000 10.0.0.2 22
1: lo    inet 127.0.0.1/8 scope host lo
2: eth0@if5    inet6 2001:db8::2/64 scope global
2: eth0@if5    inet 10.0.0.2/24 scope global eth0
3: ib0    inet6 fe80::3/64 scope link
3: ib0    inet6 2001:db8:1::3/64 scope global
"""


def group(**values: str) -> ComputeTarget:
    return ComputeTarget("both", "", "group", **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("interface", "wanted"), [("", NodeAddress("eth0", "10.0.0.2")), ("ib0", NodeAddress("ib0", "2001:db8:1::3"))]
)
def test_place_is_that_of_ssh_or_of_the_interface(interface: str, wanted: NodeAddress) -> None:
    assert parse_address(group(network_interface=interface), "box", Completed(0, _ADDRESSES)) == wanted


def test_missing_interface_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="member box has no interface 'ib1'") as error:
        parse_address(group(network_interface="ib1"), "box", Completed(0, _ADDRESSES))
    assert "eth0, ib0" in error.value.remedy


def test_loopback_address_is_refused() -> None:
    """The member was attached as `localhost`, such as through a tunnel."""
    found = _ADDRESSES.replace(b"10.0.0.1 51000 10.0.0.2", b"127.0.0.1 51000 127.0.0.1")
    with pytest.raises(ConfigurationError, match=r"member box is reached at the address 127\.0\.0\.1") as error:
        parse_address(group(), "box", Completed(0, found))
    assert "Set `networkInterface`" in error.value.remedy
    assert parse_address(group(network_interface="eth0"), "box", Completed(0, found)) == NodeAddress("eth0", "10.0.0.2")


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ("[]", "`members` names no targets"),
        ("[box1]", "`members` names one target"),
        ("[box1, box1]", "`members` names 'box1' twice"),
        ("[box1, box9]", "'box9', which is not another target of the project"),
        ("[box1, local]", "`members` names 'local', which is a target of type local"),
        ("[box1, same]", "box1 and same are the same account on the same machine"),
    ],
)
def test_wrong_members_are_refused(tmp_path: Path, members: str, problem: str) -> None:
    folder = tmp_path / "aml_config"
    folder.mkdir()
    (folder / "local.compute").write_text("type: local\n")
    for name in ("box1", "same"):
        (folder / f"{name}.compute").write_text("type: remote\naddress: 10.0.0.1\nusername: me\n")
    (folder / "both.compute").write_text(f"type: group\nmembers: {members}\n")
    with pytest.raises(ConfigurationError) as error:
        Project(str(tmp_path)).target("both")
    assert problem in error.value.message
    assert (error.value.file, error.value.line) == (str(folder / "both.compute"), 2)


def test_member_is_given_up_while_another_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = group(on_lost_member="end")._replace(parts=tuple(ComputeTarget(name, "", "remote") for name in "ab"))
    lost = LostMembers(GroupTarget(whole, {}))
    seconds = [0.0]
    monkeypatch.setattr(member_reports, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    lost.lose("b", "no route")
    assert lost.given_up("ab") == {}  # not after such a short time
    seconds[0] += waiting.LOST_SECONDS
    assert lost.given_up("ab") == {"b": "no route"}
    assert lost.given_up("b") == {}  # a has ended its part, and says nothing about the connection of this machine
    seconds[0] += waiting.LOST_SECONDS
    lost.lose("a", "no route")
    assert lost.given_up("ab") == {}  # the connection of this machine is lost
    assert lost.given_up("") == {}
    lost.regain("a")
    assert lost.given_up("ab") == {}  # b may answer a moment later
    seconds[0] += waiting.LOST_SECONDS
    assert lost.given_up("ab") == lost.given_up("") == {"b": "no route"}
    lost.regain("b")
    assert lost.given_up("ab") == {}


class Member(FakeTarget):
    """A member whose part ends when `ends` is set."""

    def __init__(self, target: ComputeTarget, ends: threading.Event) -> None:
        super().__init__(target)
        self._ends = ends

    def wait(self, spec: RunSpec, interrupted: int) -> Outcome:
        assert self._ends.wait(60)
        return Outcome(0)


def test_time_before_an_attempt_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Member b did not answer at the end of an earlier attempt, long ago."""
    run, ends = run_of_group(tmp_path, on_lost_member="end"), threading.Event()
    members = {part.target.name: Member(part.target, ends) for part in run.parts}
    target = GroupTarget(run.target, members)
    members["b"].report.lost("no route")
    start, reads = time.monotonic(), 0

    def monotonic() -> float:
        nonlocal reads
        reads += 1
        if reads == 3:  # after two decisions at least
            ends.set()
        return start + 2 * waiting.LOST_SECONDS

    monkeypatch.setattr(member_reports, "time", SimpleNamespace(monotonic=monotonic))
    assert target.wait(run, -1).exit_code == 0


def test_part_that_ends_at_once_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Quick(BackgroundCall):
        def __init__(self, call: Callable[[], object]) -> None:
            super().__init__(call)
            self.result()

    monkeypatch.setattr(waiting, "BackgroundCall", Quick)
    run, ends = run_of_group(tmp_path), threading.Event()
    ends.set()
    reads = iter(range(100))
    parts = [(Member(part.target, ends), part) for part in run.parts]
    assert waiting.wait_for_parts(parts, -1, lambda: next(reads) < 0).exit_code == 0


def environments(**pythons: str) -> dict[str, PythonEnvironment]:
    """Return environments on this machine with these interpreters, by the name of the member."""
    members = [ComputeTarget(name, "", "local", python_location=path) for name, path in pythons.items()]
    return {each.name: PythonEnvironment(LocalHost(), spec_of(each)) for each in members}


def test_versions_of_members_are_compared(tmp_path: Path) -> None:
    """Stand-in: the interpreter of b has another version. That of a finds a package in its PYTHONPATH."""
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 3.9\n")
    other.chmod(0o755)
    members = environments(a="/usr/bin/python3", b=str(other))
    (tmp_path / "torch-2.7.1.dist-info").mkdir()
    (tmp_path / "torch-2.7.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.7.1\n")
    variables = {"PYTHONPATH": str(tmp_path)}
    spec = members["a"].spec
    members["a"].spec = spec._replace(
        run_configuration=spec.run_configuration._replace(environment_variables=variables)
    )
    text = describe_versions(versions_of(members))
    assert re.fullmatch(r"a has Python 3\.\d+ and PyTorch 2\.7\.1; b has Python 3\.9 and no PyTorch", text), text


def test_port_in_use_is_refused(home: Path) -> None:
    """Stand-in: both members are this machine."""
    members = environments(a=sys.executable, b=sys.executable)
    places = {name: NodeAddress("lo", "127.0.0.1") for name in members}
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(WorkbenchError, match=f"member a cannot listen on 127.0.0.1, port {port}: Address already"):
            require_connections(group(), members, places, port)
    require_connections(group(), members, places, port)


def interpreter_after(path: Path, script: str) -> str:
    """Write a program that executes a line of `sh` and becomes Python; return its path."""
    path.write_text(f'#!/bin/sh\n{script}\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_members_connect_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-in: the interpreters of b and c wait for each other."""
    monkeypatch.setattr(connecting, "PYTHON_SECONDS", 20.0)
    os.mkfifo(tmp_path / "meet")
    pythons = {"a": sys.executable}
    for name, waits in (("b", "echo >"), ("c", "read line <")):
        pythons[name] = interpreter_after(tmp_path / name, f"{waits} {tmp_path}/meet")
    places = {name: NodeAddress("lo", "127.0.0.1") for name in pythons}
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    require_connections(group(), environments(**pythons), places, port)


def test_lost_connection_to_the_first_member_does_not_count_as_a_firewall(tmp_path: Path) -> None:
    """Stand-in: the interpreter of b ends that of a, as the loss of its connection does."""
    pythons = {
        "a": interpreter_after(
            tmp_path / "a", f'case "$*" in *create_connection*) ;; *) echo $$ >{tmp_path}/pid ;; esac'
        ),
        "b": interpreter_after(
            tmp_path / "b", f'case "$*" in *create_connection*) kill -KILL $(cat {tmp_path}/pid) ;; esac'
        ),
    }
    places = {name: NodeAddress("lo", "127.0.0.1") for name in pythons}
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ConnectionLost, match="the connection to member a was lost"):
        require_connections(group(), environments(**pythons), places, port)


def test_interpreter_that_does_not_start_is_named() -> None:
    members = environments(a="/nowhere/python", b=sys.executable)
    places = {name: NodeAddress("lo", "127.0.0.1") for name in members}
    with pytest.raises(WorkbenchError, match=r"Python of member a ended with exit code 127: .*not found") as error:
        require_connections(group(), members, places, 20000)
    assert "`workbench-tui computetarget check a`" in error.value.remedy


def test_clocks_that_certainly_differ_are_reported() -> None:
    apart = {"a": Clock(-0.2, 1.1), "b": Clock(6.5, 7.9), "c": Clock(0.0, 1.0)}
    assert clock_warning(apart) == "the clock of member b is at least 5 s ahead of the clock of member c"
    # The answer of a slow machine says little about its clock.
    assert clock_warning({"a": Clock(-9.0, 3.0), "b": Clock(6.5, 7.9)}) == ""


def test_machine_that_prints_no_time_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    date = tmp_path / "date"
    date.write_text("#!/bin/sh\necho soon\n")
    date.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(WorkbenchError, match="`date` printed 'soon', which is not a time"):
        clock_of(LocalHost())
