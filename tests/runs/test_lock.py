"""One controller for each run: the lock says who it is, is handed on whole, and never outlives its holders."""

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
    lock = ControllerLock.of_unfinished(directory)
    assert lock is not None
    return lock


def test_it_is_held_once(directory: RunDirectory) -> None:
    lock = take(directory)
    assert ControllerLock.of_unfinished(directory) is None
    assert ControllerLock.holder(directory) == os.getpid()
    lock.release()
    assert ControllerLock.holder(directory) == 0
    take(directory).release()


def test_a_run_that_never_had_a_controller_has_none(directory: RunDirectory) -> None:
    assert ControllerLock.holder(directory) == 0
    assert not list(Path(directory.path).iterdir())


def test_to_look_who_holds_it_does_not_take_it(directory: RunDirectory) -> None:
    take(directory).release()
    before = descriptors()
    for _ in range(10):
        assert ControllerLock.holder(directory) == 0
    assert descriptors() == before
    take(directory).release()


def test_it_dies_with_its_holder_and_the_number_left_in_the_file_means_nothing(directory: RunDirectory) -> None:
    child = os.fork()
    if child == 0:
        take(directory)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert Path(directory.file("controller.lock")).read_text().strip() == str(child)
    assert ControllerLock.holder(directory) == 0
    take(directory).release()


def test_a_fork_holds_it_on_when_its_parent_lets_go(directory: RunDirectory) -> None:
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
    assert ControllerLock.of_unfinished(directory) is None
    until(lambda: ControllerLock.holder(directory) == child)
    os.close(writing)
    os.waitpid(child, 0)
    assert ControllerLock.holder(directory) == 0


def test_a_started_program_gets_it_under_the_number_it_is_told(directory: RunDirectory) -> None:
    lock = take(directory)
    reading, writing = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, reading, 0), (os.POSIX_SPAWN_DUP2, lock.descriptor, 9)]
    child = os.posix_spawn("/bin/sh", ["sh", "-c", "read line"], os.environ, file_actions=actions)
    lock.sign(child)
    lock.release()
    os.close(reading)
    assert ControllerLock.of_unfinished(directory) is None
    assert ControllerLock.holder(directory) == child
    os.close(writing)
    os.waitpid(child, 0)
    assert ControllerLock.holder(directory) == 0


def test_other_children_do_not_get_it(directory: RunDirectory) -> None:
    lock = take(directory)
    with subprocess.Popen(["sleep", "600"], close_fds=False) as bystander:
        lock.release()
        assert ControllerLock.holder(directory) == 0
        bystander.kill()


def test_who_waits_gets_it_next(directory: RunDirectory) -> None:
    lock = take(directory)
    got: list[ControllerLock | None] = []
    waiter = threading.Thread(target=lambda: got.append(ControllerLock.wait_for(directory)))
    waiter.start()
    assert not got
    lock.release()
    waiter.join(30)
    assert got[0] is not None
    got[0].release()


def test_a_second_release_does_not_close_what_has_the_number_now(directory: RunDirectory) -> None:
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


def test_a_shorter_number_leaves_nothing_of_a_longer_one(directory: RunDirectory) -> None:
    lock = take(directory)
    lock.sign(4_194_303)
    assert ControllerLock.holder(directory) == 4_194_303
    lock.sign(7)
    assert ControllerLock.holder(directory) == 7
    lock.release()


def test_a_holder_that_has_not_signed_is_one_all_the_same(directory: RunDirectory) -> None:
    with open(directory.file("controller.lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert ControllerLock.holder(directory) == -1


def test_a_file_system_without_locks_is_named_and_not_taken_for_a_held_one(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    before = descriptors()
    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(StorageError, match=r"controller\.lock"):
        ControllerLock.of_unfinished(directory)
    assert descriptors() == before


def test_a_folder_that_is_not_ours_is_named(directory: RunDirectory) -> None:
    with pytest.raises(StorageError, match="nowhere"):
        ControllerLock.of_unfinished(RunDirectory(f"{directory.path}/nowhere"))


def test_closed_standard_streams_do_not_become_the_lock(directory: RunDirectory) -> None:
    program = (
        "import os, sys\nfor number in (0, 1, 2): os.close(number)\n"
        "from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory\n"
        "lock = ControllerLock.of_unfinished(RunDirectory(sys.argv[1]))\n"
        "os._exit(0 if lock.descriptor > 2 and ControllerLock.holder(RunDirectory(sys.argv[1])) else 1)"
    )
    assert subprocess.run([sys.executable, "-c", program, directory.path], check=False).returncode == 0
