"""What is started to outlive us holds nothing of ours."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from tests.faults.support import is_running, until
from tui_workbench.targets.children import number_for, reap, start_detached


@pytest.fixture
def inherited(tmp_path: Path) -> int:
    """A descriptor that this process gives on to every program it starts, as one does that it got itself."""
    descriptor = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(descriptor, True)
    return descriptor


def test_a_lock_that_we_inherited_is_free_when_we_let_go_of_it(inherited: int, tmp_path: Path) -> None:
    fcntl.flock(inherited, fcntl.LOCK_EX)
    pid = start_detached(["/bin/sleep", "600"], {})
    try:
        until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
        os.close(inherited)
        with open(tmp_path / "lock") as again:
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.kill(pid, 9)
        until(lambda: not is_running(pid))
        reap()


def test_what_is_passed_and_where_errors_go_it_has(inherited: int, tmp_path: Path) -> None:
    number = number_for(inherited)
    errors = os.open(tmp_path / "errors", os.O_WRONLY | os.O_CREAT)
    pid = start_detached(
        ["/bin/sh", "-c", f"echo said >&2; echo given >&{number}; ls /proc/self/fd >&{number}"],
        {"PATH": os.environ["PATH"]},
        errors=errors,
        passed=((inherited, number),),
    )
    os.close(errors)
    os.close(inherited)
    until(lambda: not is_running(pid))
    reap()
    assert (tmp_path / "errors").read_text() == "said\n"
    said, *descriptors = (tmp_path / "lock").read_text().split()
    assert said == "given"
    # The last one is what `ls` reads the folder with.
    assert [each for each in descriptors if int(each) > 2 and int(each) != number][1:] == []


def test_it_has_a_session_of_its_own(tmp_path: Path) -> None:
    pid = start_detached(["/bin/sleep", "600"], {})
    try:
        assert os.getsid(pid) == pid
    finally:
        os.kill(pid, 9)
        until(lambda: not is_running(pid))
        reap()
