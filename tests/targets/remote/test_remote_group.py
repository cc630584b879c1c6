"""Following several runs of a machine with one group. The machine is this one; the scripts are real processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.faults.support import until
from tests.proc import PROC
from tests.runs.support import record_of
from tests.targets.group_support import Calls
from tui_workbench.core import locks, system
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.remote import remote_group
from tui_workbench.targets.remote.remote_group import RemoteGroup
from tui_workbench.targets.slurm.cluster import LoginHost

pytestmark = pytest.mark.linux("its stand-ins for runs have start times from /proc")

FIRST, SECOND = "exp_1", "exp_2"


class Machine:
    """A machine with the runs `exp_1` and `exp_2`: folders there and here, and a process for each run."""

    def __init__(self, folder: Path, *, in_containers: bool = False) -> None:
        self._folder = folder
        self.group = RemoteGroup(LoginHost(LocalHost(), str(folder / "root")), in_containers=in_containers)
        self.calls = {name: Calls() for name in (FIRST, SECOND)}
        self._ended: set[str] = set()
        self.shells = {name: self._start(name) for name in self.calls}

    def here(self, name: str) -> Path:
        return self._folder / "project" / ".workbench" / "runs" / name

    def there(self, name: str) -> Path:
        return self._folder / "root" / "runs" / name

    def log(self, name: str) -> bytes:
        path = self.here(name) / "output.log"
        return path.read_bytes() if path.exists() else b""

    def print(self, name: str, text: str) -> None:
        with (self.there(name) / "output.log").open("a") as file:
            file.write(text)

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        self.here(name).mkdir(parents=True)
        self.there(name).mkdir(parents=True)
        environment = {**os.environ, "WORKBENCH_RUN_ID": name}
        process = subprocess.Popen(["sleep", "1000"], env=environment)
        until(lambda: f"WORKBENCH_RUN_ID={name}".encode() in (PROC / f"{process.pid}/environ").read_bytes())
        stat = (PROC / f"{process.pid}/stat").read_text()
        (self.there(name) / "pid").write_text(f"{process.pid}\n{system.boot_id()}\n{stat}")
        (self.there(name) / "exit").write_text("    \n")
        self.print(name, "began\n")
        return process

    def end(self, name: str) -> None:
        (self.there(name) / "exit").write_text("0   \n")

    def follow(self) -> None:
        """Follow both runs until the group has seen them."""
        for name, calls in self.calls.items():
            self.group.add(record_of(self.here(name)).spec, calls)
        self.until_seen(lambda: all(calls.names for calls in self.calls.values()))

    def until_seen(self, condition: Callable[[], object]) -> None:
        """Follow the runs until the condition holds."""

        def seen() -> object:
            self._ended.update(self.group.wait(-1, 0.05))
            return condition()

        until(seen)

    def until_ended(self, name: str) -> None:
        self.until_seen(lambda: name in self._ended)

    def has_ended(self, name: str) -> bool:
        return name in self._ended

    def close(self) -> None:
        self.group.close()
        for process in self.shells.values():
            process.kill()
            process.wait()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()


def follower() -> int:
    """Return the process that looks at the runs, a child of the shell that this process has started."""

    def parent(pid: int) -> int:
        return int((PROC / f"{pid}/stat").read_text().rpartition(")")[2].split()[1])

    def found() -> list[int]:
        pids = [int(path.name) for path in PROC.iterdir() if path.name.isdigit()]
        parents = {}
        for pid in pids:
            with contextlib.suppress(OSError):
                parents[pid] = parent(pid)
        return [pid for pid, shell in parents.items() if parents.get(shell) == os.getpid() and is_follower(pid)]

    (pid,) = until(found, "the follower")
    return int(pid)


def is_follower(pid: int) -> bool:
    return b"follower=" in (PROC / f"{pid}/cmdline").read_bytes()


def is_copy(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


@pytest.mark.processes
def test_output_is_copied_and_each_run_ends_once(machine: Machine) -> None:
    machine.follow()
    machine.print(FIRST, "more\n")
    machine.until_seen(lambda: machine.log(FIRST) == b"began\nmore\n")
    machine.end(FIRST)
    machine.until_ended(FIRST)
    assert not machine.has_ended(SECOND)
    assert machine.log(SECOND) == b"began\n"
    assert machine.group.wait(-1, 0.0) == {}


@pytest.mark.processes
def test_copy_that_another_process_writes_delays_only_its_run(machine: Machine) -> None:
    copying = os.open(machine.here(FIRST) / "output.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    locks.lock(copying)
    machine.follow()
    machine.print(SECOND, "more\n")
    machine.until_seen(lambda: machine.log(SECOND) == b"began\nmore\n")
    os.write(copying, b"beg")
    os.close(copying)
    machine.until_seen(lambda: machine.log(FIRST) == b"began\n")


@pytest.mark.processes
def test_copy_that_cannot_be_written_makes_only_its_run_unknown(machine: Machine) -> None:
    (machine.here(FIRST) / "output.log").symlink_to("x")
    machine.follow()
    machine.until_seen(lambda: "lost" in machine.calls[FIRST].names and machine.log(SECOND) == b"began\n")
    assert "lost" not in machine.calls[SECOND].names
    (machine.here(FIRST) / "output.log").unlink()
    machine.until_seen(lambda: machine.log(FIRST) == b"began\n" and machine.calls[FIRST].names[-1] == "running")


def test_process_with_the_id_of_an_ended_shell_is_not_the_shell(machine: Machine) -> None:
    (machine.there(FIRST) / "pid").write_text(
        f"{os.getpid()}\n{system.boot_id()}\n{machine.shells[FIRST].pid} (sh) S\n"
    )
    machine.shells[FIRST].kill()
    machine.shells[FIRST].wait()
    for name, calls in machine.calls.items():
        machine.group.add(record_of(machine.here(name)).spec, calls)
    machine.until_ended(FIRST)
    assert not machine.has_ended(SECOND)


@pytest.mark.processes
def test_script_without_shell_is_reported_and_followed(machine: Machine) -> None:
    script = subprocess.Popen(["sleep", "1000"], env={**os.environ, "WORKBENCH_RUN_ID": FIRST})
    machine.follow()
    machine.shells[FIRST].kill()
    machine.shells[FIRST].wait()
    machine.until_seen(lambda: "orphaned" in machine.calls[FIRST].names)
    machine.print(FIRST, "more\n")
    machine.until_seen(lambda: machine.log(FIRST) == b"began\nmore\n")
    assert not machine.has_ended(FIRST)
    script.kill()
    script.wait()
    machine.until_ended(FIRST)
    assert machine.calls[FIRST].names.count("orphaned") == 1


@pytest.mark.processes
def test_run_that_is_added_again_is_not_ended_by_an_earlier_answer(machine: Machine) -> None:
    machine.follow()
    machine.end(FIRST)
    machine.until_ended(FIRST)
    (machine.there(FIRST) / "exit").write_text("    \n")
    calls = Calls()
    machine.group.add(record_of(machine.here(FIRST)).spec, calls)
    machine.until_seen(lambda: calls.names)
    assert machine.group.wait(-1, 1.0) == {}


@pytest.mark.processes
def test_file_names_of_a_script_do_not_affect_other_runs(machine: Machine) -> None:
    for name in (FIRST, SECOND):
        (machine.there(name) / "ranks").mkdir()
        (machine.there(name) / "ranks" / "1.log").write_text(name)
    (machine.there(FIRST) / "ranks" / "2\n=\n9 metrics.jsonl\n=\n.log").touch()
    machine.follow()
    for name in (FIRST, SECOND):
        copy = machine.here(name) / "ranks" / "1.log"
        machine.until_seen(partial(is_copy, copy, name))
    assert [path.name for path in machine.here(SECOND).glob("ranks/*")] == ["1.log"]


@pytest.mark.processes
def test_run_in_a_container_ends_only_with_an_exit_code(tmp_path: Path) -> None:
    with contextlib.closing(Machine(tmp_path, in_containers=True)) as machine:
        for shell in machine.shells.values():
            shell.kill()
            shell.wait()
        machine.follow()
        machine.print(FIRST, "more\n")
        machine.until_seen(lambda: machine.log(FIRST) == b"began\nmore\n")
        machine.end(SECOND)
        machine.until_ended(SECOND)
        assert not machine.has_ended(FIRST)
        assert "orphaned" not in machine.calls[FIRST].names


def test_wait_ends_when_another_descriptor_is_readable(machine: Machine) -> None:
    machine.follow()
    reading, writing = os.pipe()
    os.write(writing, b"c")
    assert machine.group.wait(-1, woken=reading) == {}
    os.close(reading)
    os.close(writing)


def test_removed_run_is_not_copied(machine: Machine) -> None:
    machine.follow()
    machine.group.remove(FIRST)
    before = machine.log(FIRST)
    machine.print(FIRST, "more\n")
    machine.print(SECOND, "more\n")
    machine.until_seen(lambda: machine.log(SECOND) == b"began\nmore\n")
    assert machine.log(FIRST) == before


@pytest.mark.processes
def test_killed_follower_on_the_machine_is_replaced(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_group, "SILENCE_SECONDS", 2.0)
    machine.follow()
    os.kill(follower(), signal.SIGKILL)
    machine.print(FIRST, "more\n")
    machine.until_seen(lambda: machine.log(FIRST) == b"began\nmore\n")
    assert machine.calls[FIRST].names[-1] == "running"
