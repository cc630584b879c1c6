"""The controller lock: one holder at a time, passed to children, freed when all holders end."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.faults.support import until
from tests.runs.support import descriptors
from tui_workbench.core.errors import StorageError
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return RunDirectory(str(tmp_path))


def take(directory: RunDirectory) -> ControllerLock:
    lock = ControllerLock.acquire_new(directory)
    assert lock is not None
    return lock


def test_lock_is_held_once(directory: RunDirectory) -> None:
    lock = take(directory)
    assert ControllerLock.acquire_new(directory) is None
    assert ControllerLock.holder(directory) == os.getpid()
    lock.release()
    assert ControllerLock.holder(directory) == 0
    take(directory).release()


def test_new_run_has_no_controller(directory: RunDirectory) -> None:
    assert ControllerLock.holder(directory) == 0
    assert not list(Path(directory.path).iterdir())


def test_reading_the_holder_does_not_take_the_lock(directory: RunDirectory) -> None:
    take(directory).release()
    before = descriptors()
    for _ in range(10):
        assert ControllerLock.holder(directory) == 0
    assert descriptors() == before
    take(directory).release()


def test_lock_is_freed_when_its_holder_dies(directory: RunDirectory) -> None:
    child = os.fork()
    if child == 0:
        take(directory)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert Path(directory.file("controller.lock")).read_text().strip() == str(child)
    assert ControllerLock.holder(directory) == 0
    take(directory).release()


def test_fork_keeps_the_lock_after_its_parent_releases(directory: RunDirectory) -> None:
    lock = take(directory)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        lock.sign()
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    lock.release()
    assert ControllerLock.acquire_new(directory) is None
    until(lambda: ControllerLock.holder(directory) == child)
    os.close(writing)
    os.waitpid(child, 0)
    assert ControllerLock.holder(directory) == 0


def test_started_program_inherits_the_lock(directory: RunDirectory) -> None:
    lock = take(directory)
    reading, writing = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, reading, 0), (os.POSIX_SPAWN_DUP2, lock.descriptor, 9)]
    child = os.posix_spawn("/bin/sh", ["sh", "-c", "read line"], os.environ, file_actions=actions)
    lock.sign(child)
    lock.release()
    os.close(reading)
    assert ControllerLock.acquire_new(directory) is None
    assert ControllerLock.holder(directory) == child
    os.close(writing)
    os.waitpid(child, 0)
    assert ControllerLock.holder(directory) == 0


def test_other_children_do_not_inherit_the_lock(directory: RunDirectory) -> None:
    lock = take(directory)
    with subprocess.Popen(["sleep", "600"], close_fds=False) as bystander:
        lock.release()
        assert ControllerLock.holder(directory) == 0
        bystander.kill()


def test_waiting_process_gets_the_lock_next(directory: RunDirectory) -> None:
    lock = take(directory)
    got: list[ControllerLock | None] = []
    waiter = threading.Thread(target=lambda: got.append(ControllerLock.wait_for(directory)))
    waiter.start()
    assert not got
    lock.release()
    waiter.join(120)
    assert got[0] is not None
    got[0].release()


def test_second_release_closes_no_other_file(directory: RunDirectory) -> None:
    lock = take(directory)
    number = lock.descriptor
    lock.release()
    other = os.open("/dev/null", os.O_RDONLY)
    os.dup2(other, number)
    lock.release()
    os.fstat(number)
    os.close(number)
    if other != number:
        os.close(other)


def test_shorter_pid_replaces_a_longer_one(directory: RunDirectory) -> None:
    lock = take(directory)
    lock.sign(4_194_303)
    assert ControllerLock.holder(directory) == 4_194_303
    lock.sign(7)
    assert ControllerLock.holder(directory) == 7
    lock.release()


def test_holder_without_a_pid_counts(directory: RunDirectory) -> None:
    with open(directory.file("controller.lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert ControllerLock.holder(directory) == -1


def test_file_system_without_locks_is_reported(directory: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    before = descriptors()
    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(StorageError, match=r"controller\.lock"):
        ControllerLock.acquire_new(directory)
    assert descriptors() == before


def test_read_only_run_directory_is_reported(directory: RunDirectory) -> None:
    with pytest.raises(StorageError, match="nowhere"):
        ControllerLock.acquire_new(RunDirectory(f"{directory.path}/nowhere"))


def test_lock_does_not_use_a_standard_stream(directory: RunDirectory) -> None:
    program = (
        "import os, sys\nfor number in (0, 1, 2): os.close(number)\n"
        "from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory\n"
        "lock = ControllerLock.acquire_new(RunDirectory(sys.argv[1]))\n"
        "os._exit(0 if lock.descriptor > 2 and ControllerLock.holder(RunDirectory(sys.argv[1])) else 1)"
    )
    assert subprocess.run([sys.executable, "-c", program, directory.path], check=False).returncode == 0
