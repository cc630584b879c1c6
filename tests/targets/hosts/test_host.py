"""Behaviors of all hosts, tested on this machine and on another one."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import open_folder
from tests.machines import PATIENCE, wait_for
from tests.proc import PROC
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.waiting import wait_ready
from tui_workbench.targets.hosts.host import Completed, ConnectionLost, Host, LocalHost, communicate
from tui_workbench.targets.ssh.ssh_host import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui_workbench.targets.ssh.ssh_host import SshHost

ODD_WORDS = ["", " ", "a b", "'", '"', "$(touch x)", "`id`", "a\nb", "\n", "\\", "\\n", "$n", "*", "-n", "~", "ä€"]
ODD_WORDS += ["\udcff\udcfe", "!!", "&", ";", "#", "{a,b}", "\t\x01\x7f"]


@pytest.fixture(params=["local", pytest.param("ssh", marks=pytest.mark.ssh)])
def any_host(request: pytest.FixtureRequest) -> Host:
    host: Host = LocalHost() if request.param == "local" else request.getfixturevalue("host")
    return host


def test_run_returns_output_and_exit_code(any_host: Host) -> None:
    done = any_host.run(["sh", "-c", "cat; echo said; echo complained >&2; exit 7"], stdin=b"\0\xffin\n")
    assert done == (7, b"\0\xffin\nsaid\n", b"complained\n")
    assert done.complaint == "complained"


def test_complaint_is_not_a_line_of_a_stack_trace() -> None:
    lines = b"Exception in thread main\n\tat x.Y(Y.java:1)\nCaused by: Connection refused\n\tat x.Z\n\t... 21 more\n"
    assert Completed(1, b"", lines).complaint == "Caused by: Connection refused"


def test_arguments_are_passed_unchanged(any_host: Host) -> None:
    done = any_host.run(["printf", r"%s\0", *ODD_WORDS])
    assert done.stdout.split(b"\0")[:-1] == [os.fsencode(word) for word in ODD_WORDS]


def test_nul_in_an_argument_is_refused() -> None:
    with pytest.raises(WorkbenchError, match="NUL"):
        quote(["echo", "a\0b"])


@pytest.mark.parametrize("code", [0, 1, 2, 126, 127, 255])
def test_exit_code_is_passed_on(any_host: Host, code: int) -> None:
    assert any_host.run(["sh", "-c", f"exit {code}"]).code == code


@pytest.mark.parametrize(("name", "number"), [("TERM", 15), ("KILL", 9), ("SEGV", 11)])
def test_signal_becomes_128_plus_its_number(any_host: Host, name: str, number: int) -> None:
    process = any_host.open(["sh", "-c", f"kill -{name} $$; sleep 100"])
    try:
        assert process.wait(PATIENCE) == 128 + number
    finally:
        process.close()


def test_killed_remote_program_raises_connection_lost(host: SshHost) -> None:
    with pytest.raises(ConnectionLost, match="`sh` was killed by signal 15"):
        host.run(["sh", "-c", "kill -TERM $$; sleep 100"])


def test_missing_program_ends_with_127(any_host: Host) -> None:
    done = any_host.run(["/nowhere/at all"])
    assert done.code == 127
    assert "/nowhere/at all" in done.complaint


@pytest.mark.linux("/dev/stderr is in /proc")
def test_large_input_and_output_do_not_deadlock(any_host: Host) -> None:
    data = os.urandom(3_000_000)
    done = any_host.run(["tee", "/dev/stderr"], stdin=data)
    assert (done.stdout == data, done.stderr == data) == (True, True)


def test_unread_input_is_not_an_error(any_host: Host) -> None:
    assert any_host.run(["true"], stdin=b"x" * 3_000_000).code == 0


def test_program_is_killed_after_the_timeout(any_host: Host, tmp_path: Path) -> None:
    mark = f"sleep {1000 + os.getpid() % 1000}.125"
    with pytest.raises(ConnectionLost, match=r"within 0\.5 s"):
        any_host.run(["sh", "-c", f"{mark}; true"], timeout=0.5)
    wait_for(lambda: not _processes(mark), "the program to be ended")


def test_close_ends_a_silent_program(any_host: Host) -> None:
    mark = f"sleep {2000 + os.getpid() % 1000}.125"
    process = any_host.open(["sh", "-c", f"echo on; {mark}; true"])
    assert os.read(process.stdout, 10) == b"on\n"
    assert _processes(mark)
    process.close()
    wait_for(lambda: not _processes(mark), "the program to be ended")


def test_exit_descriptor_is_readable_after_the_end(any_host: Host) -> None:
    process = any_host.open(["cat"])
    assert not wait_ready([process.exit_descriptor()], timeout=0.1)
    process.close_stdin()
    assert wait_ready([process.exit_descriptor()], timeout=PATIENCE)
    assert process.wait(PATIENCE) == 0
    process.close()


def test_wait_has_a_timeout(any_host: Host) -> None:
    process = any_host.open(["cat"])
    with pytest.raises(TimeoutError):
        process.wait(0.05)
    process.close()


def test_output_is_readable_while_the_program_runs(any_host: Host) -> None:
    process = any_host.open(["cat"])
    for word in (b"one", b"two"):
        os.write(process.stdin, word)
        assert os.read(process.stdout, 100) == word
    process.close_stdin()
    assert communicate(process, b"", time.monotonic() + PATIENCE) == (b"", b"")
    process.close()


def test_read_follows_a_growing_file_from_an_offset(any_host: Host, shared: Path) -> None:
    path = shared / "output.log"
    path.write_bytes(b"0123456789")
    process = any_host.read(str(path), 4)
    assert _take(process.stdout, 6) == b"456789"
    with path.open("ab") as file:
        for number in range(100):
            file.write(b"%04d\n" % number)
            file.flush()
            assert _take(process.stdout, 5) == b"%04d\n" % number
    process.close()


def test_read_waits_for_a_missing_file(any_host: Host, shared: Path) -> None:
    process = any_host.read(str(shared / "later.log"))
    (shared / "later.log").write_bytes(b"here\n")
    assert _take(process.stdout, 5) == b"here\n"
    process.close()


def test_closed_read_leaves_no_process(any_host: Host, shared: Path) -> None:
    path = shared / "followed.log"
    path.write_bytes(b"x")
    process = any_host.read(str(path))
    assert _take(process.stdout, 1) == b"x"
    process.close()
    wait_for(lambda: not _processes(str(path)), "tail to end")


def test_user_ids_are_those_of_the_host(any_host: Host) -> None:
    assert any_host.user_ids() == ((os.getuid(), os.getgid()) if any_host.is_local else (2001, 2001))


def test_home_is_below_the_home_of_the_user(any_host: Host, home: Path) -> None:
    expected = str(home / ".local/share/workbench-tui") if any_host.is_local else "/home/research/.workbench-tui"
    assert any_host.home() == expected


def test_check_raises_the_error_output(any_host: Host) -> None:
    with pytest.raises(WorkbenchError, match="`sh` failed: no good"):
        any_host.check(["sh", "-c", "echo no good >&2; exit 3"])


def test_no_descriptor_stays_open(any_host: Host) -> None:
    any_host.run(["true"])
    before = len(os.listdir(PROC / "self/fd"))
    for _ in range(5):
        any_host.run(["true"])
        any_host.open(["cat"]).close()
    assert len(os.listdir(PROC / "self/fd")) == before


@pytest.fixture
def shared(any_host: Host) -> Iterator[Path]:
    """Return a folder that has the same path on this machine and the host, which share /tmp."""
    with open_folder() as folder:
        yield folder


def _take(descriptor: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        assert wait_ready([descriptor], timeout=PATIENCE), f"only {data!r} came"
        data += os.read(descriptor, size - len(data))
    return data


def _processes(mark: str) -> list[str]:
    """Return the command lines that contain the text, on this machine and on test machines."""
    found = []
    for pid in filter(str.isdigit, os.listdir(PROC)):
        try:
            with open(PROC / f"{pid}/cmdline", "rb") as file:
                words = file.read().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if mark in words and int(pid) != os.getpid():
            found.append(words)
    return found
