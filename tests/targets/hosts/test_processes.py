"""Finding and ending the processes of a run."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.support import is_running, until
from tests.proc import PROC
from tui_workbench.core.system import process_stat
from tui_workbench.core.waiting import Interrupted
from tui_workbench.targets.hosts.processes import (
    RUN_DIRECTORY_VARIABLE,
    RUN_ID_VARIABLE,
    end_processes,
    processes_of_run,
    wait_for_any,
)

RUN = "project_1700000000000"


class Family:
    """Processes of a test, all ended with it."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str, run_id: str = RUN, session: bool = False, directory: str = "") -> int:
        """Start a process that has a run's ID ("" for none), and return its process ID."""
        environment = {name: value for name, value in os.environ.items() if name != RUN_ID_VARIABLE}
        if run_id:
            environment[RUN_ID_VARIABLE] = run_id
        if directory:
            environment[RUN_DIRECTORY_VARIABLE] = directory
        process = subprocess.Popen(
            command or ("sleep", "600"), env=environment, start_new_session=session, stdout=subprocess.PIPE
        )
        self.started.append(process)
        return process.pid

    def line(self) -> str:
        """Return the next line of the process that was started last."""
        stdout = self.started[-1].stdout
        assert stdout is not None
        return stdout.readline().decode().strip()

    def end(self) -> None:
        for process in self.started:
            for end in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError):
                    end(process.pid, signal.SIGKILL)
            assert process.stdout is not None
            process.stdout.close()
            process.wait()


@pytest.fixture
def family() -> Iterator[Family]:
    family = Family()
    yield family
    family.end()


def test_process_is_found_by_run_id(family: Family) -> None:
    pid = family.start()
    assert processes_of_run(RUN) == {pid}


@pytest.mark.parametrize("other", [RUN[:-1], RUN + "0", "x" + RUN, RUN.upper(), ""])
def test_process_of_another_run_is_not_found(family: Family, other: str) -> None:
    family.start(run_id=other)
    assert processes_of_run(RUN) == set()


def test_same_run_id_in_another_project_is_not_found(family: Family, tmp_path: Path) -> None:
    ours, other = tmp_path / "ours", tmp_path / "other"
    for folder in (ours, other):
        folder.mkdir()
    first = family.start(directory=str(ours))
    second = family.start(directory=str(other))
    assert processes_of_run(RUN) == {first, second}
    assert processes_of_run(RUN, directory=str(ours)) == {first}
    (tmp_path / "link").symlink_to(tmp_path)
    assert processes_of_run(RUN, directory=str(tmp_path / "link" / "ours")) == {first}
    ours.rename(tmp_path / "moved")
    assert processes_of_run(RUN, directory=str(tmp_path / "moved")) == {first}


def test_calling_process_is_not_found() -> None:
    ask = (
        "import sys; from tui_workbench.targets.hosts.processes import processes_of_run as ask; print(ask(sys.argv[1]))"
    )
    said = subprocess.run(
        [sys.executable, "-c", ask, RUN], env={**os.environ, RUN_ID_VARIABLE: RUN}, stdout=subprocess.PIPE, check=True
    )
    assert said.stdout == b"set()\n"


def test_process_with_large_environment_is_found(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(40):
        monkeypatch.setenv(f"LARGE_{number}", "x" * 10_000)
    pid = family.start()
    assert processes_of_run(RUN) == {pid}


def test_children_in_new_sessions_and_orphans_are_found(family: Family) -> None:
    family.start("sh", "-c", "setsid sh -c 'sleep 600 & echo $!; exit'", session=True)
    orphan = int(family.line())
    until(lambda: processes_of_run(RUN) == {orphan})
    assert end_processes(lambda: processes_of_run(RUN), grace=30) is False
    assert not is_running(orphan)


@pytest.mark.processes
@pytest.mark.linux("other systems report no environment of a process that is exiting")
def test_process_is_awaited_while_it_is_exiting(family: Family) -> None:
    # It frees its memory after it has lost its environment, and before it closes its files and GPUs.
    script = "import time; memory = b'x' * 400_000_000; print('ready', flush=True); time.sleep(600)"
    pid = family.start(sys.executable, "-c", script)
    assert family.line() == "ready"
    assert end_processes(lambda: processes_of_run(RUN), grace=30) is False
    assert not is_running(pid)


def test_session_members_without_run_id_are_found(family: Family) -> None:
    leader = family.start("sh", "-c", "env -i sleep 600 & echo $!; wait", session=True)
    child = int(family.line())
    until(lambda: child in processes_of_run(RUN, leader))
    assert processes_of_run(RUN, leader) == {leader, child}
    until(lambda: processes_of_run(RUN) == {leader})
    assert end_processes(lambda: processes_of_run(RUN, leader) - {leader}, grace=30) is False
    assert not is_running(child)


def test_older_processes_are_not_found(family: Family) -> None:
    first = family.start()
    start = int(process_stat(first)[1])
    assert processes_of_run(RUN, since=start) == {first}
    assert processes_of_run(RUN, since=start + 1) == set()


def test_zombie_is_not_found(family: Family) -> None:
    pid = family.start("true")
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert processes_of_run(RUN) == set()


def test_sigterm_ends_processes_without_force(family: Family) -> None:
    pids = {family.start() for _ in range(3)}
    assert end_processes(lambda: processes_of_run(RUN), grace=30) is False
    assert not any(map(is_running, pids))


def test_processes_that_ignore_sigterm_are_killed(family: Family) -> None:
    family.start("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 600; done")
    assert family.line() == "ready"
    assert end_processes(lambda: processes_of_run(RUN), grace=0.1) is True
    assert processes_of_run(RUN) == set()


def test_stopped_process_receives_sigterm(family: Family) -> None:
    pid = family.start()
    os.kill(pid, signal.SIGSTOP)
    assert end_processes(lambda: processes_of_run(RUN), grace=30) is False
    assert not is_running(pid)


def test_processes_started_on_sigterm_are_ended(family: Family) -> None:
    family.start("sh", "-c", "trap 'sleep 600 & sleep 600 &' TERM; echo ready; while :; do sleep 600; done")
    assert family.line() == "ready"
    assert end_processes(lambda: processes_of_run(RUN), grace=0.1) is True
    assert processes_of_run(RUN) == set()


def test_end_processes_returns_at_once_without_processes() -> None:
    assert end_processes(set, grace=1e9) is False


def test_waiting_ends_with_the_first_process(family: Family) -> None:
    pids = [family.start(), family.start()]
    waiter = threading.Thread(target=wait_for_any, args=(pids,))
    waiter.start()
    os.kill(pids[1], signal.SIGKILL)
    waiter.join(120)
    assert not waiter.is_alive()
    assert is_running(pids[0])


def test_wait_for_ended_process_returns_at_once(family: Family) -> None:
    pid = family.start("true")
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    wait_for_any([pid])


def test_wait_is_interrupted_by_its_descriptor(family: Family) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"x")
    with pytest.raises(Interrupted):
        wait_for_any([family.start()], interrupted=reading)
    os.close(reading)
    os.close(writing)


def not_there(pid: int) -> int:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def test_end_is_noticed_without_pidfd(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pidfd_open", not_there, raising=False)  # other systems do not have it
    pid = family.start()
    assert end_processes(lambda: processes_of_run(RUN), grace=30) is False
    assert not is_running(pid)


def descriptors() -> int:
    return len(os.listdir(PROC / "self/fd"))


def test_no_descriptor_stays_open(family: Family) -> None:
    pid = family.start()
    before = descriptors()
    for _ in range(20):
        processes_of_run(RUN, pid)
        wait_for_any([pid, pid], 0)
    assert descriptors() == before
