from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.faults.support import is_running, until
from tests.proc import PROC
from tui_workbench.core.directories import user_state_directory
from tui_workbench.core.processes import adopt, child_descriptor, reap, run, start_detached, uninterrupted
from tui_workbench.core.trace_reading import TraceFile


@pytest.fixture
def inherited(tmp_path: Path) -> int:
    """Return an inheritable descriptor, as this process may have got from its parent."""
    descriptor = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(descriptor, True)
    return descriptor


def test_detached_child_does_not_hold_an_inherited_lock(inherited: int, tmp_path: Path) -> None:
    fcntl.flock(inherited, fcntl.LOCK_EX)
    pid = start_detached(["/bin/sleep", "600"], {})
    try:
        until(lambda: (PROC / f"{pid}/comm").read_text() == "sleep\n")
        os.close(inherited)
        with open(tmp_path / "lock") as again:
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.kill(pid, 9)
        until(lambda: not is_running(pid))
        reap()


@pytest.mark.linux("lists the descriptors in /proc")
def test_detached_child_gets_passed_descriptors_and_stderr(inherited: int, tmp_path: Path) -> None:
    number = child_descriptor(inherited)
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
    # The last one is the descriptor with which `ls` reads the folder.
    assert [each for each in descriptors if int(each) > 2 and int(each) != number][1:] == []


def test_detached_child_has_a_new_session(tmp_path: Path) -> None:
    pid = start_detached(["/bin/sleep", "600"], {})
    try:
        assert os.getsid(pid) == pid
    finally:
        os.kill(pid, 9)
        until(lambda: not is_running(pid))
        reap()


def test_reap_leaves_no_zombies() -> None:
    pids = [os.posix_spawnp("true", ["true"], os.environ) for _ in range(3)]
    for pid in pids:
        adopt(pid)

    def reaped() -> bool:
        reap()
        return not any((PROC / f"{pid}").exists() for pid in pids)

    until(reaped, "the end of all three")
    for pid in pids:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    reap()


def test_run_returns_output_and_exit_code(tmp_path: Path) -> None:
    done = run(
        ["sh", "-c", "cat; pwd; echo $NAME >&2; exit 3"], folder=str(tmp_path), input=b"fed ", environment={"NAME": "x"}
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, b"fed %s\n" % os.fsencode(tmp_path), b"x\n")


def test_run_logs_the_call_in_the_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run(["sh", "-c", "echo said >&2; exit 3"])
    (call,) = TraceFile(user_state_directory()).read_new()
    assert (call.words[0], call.code, call.stderr) == ("sh", 3, "said")


def test_run_ignores_programs_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f":.:{os.environ['PATH']}")
    with pytest.raises(FileNotFoundError):
        run(["tool"])


def test_run_ends_a_program_that_takes_too_long() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run(["sleep", "600"], timeout=0.05)


def test_signal_while_a_program_is_being_started_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self.pid)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(["sleep", "600"])
    assert not is_running(started[0])


def test_input_larger_than_a_pipe_is_written_after_reports() -> None:
    data = bytes(1 << 20)
    reports: list[int] = []
    done = run(["sh", "-c", "sleep 0.6; wc -c"], input=data, on_written=reports.append)
    assert len(reports) >= 2
    assert int(done.stdout) == len(data)


def test_written_bytes_are_reported_until_the_end() -> None:
    written: list[int] = []
    done = run(["sh", "-c", "head -c 1000000 /dev/zero; sleep 0.4; cat"], input=b"end", on_written=written.append)
    assert (len(done.stdout), done.stdout[-3:]) == (1_000_003, b"end")
    assert written


def test_interrupt_waits_for_the_end_of_the_context() -> None:
    reached = []

    def interrupt() -> None:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("end")

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert reached == ["end"]


def test_interrupt_is_not_lost_if_the_context_fails() -> None:
    def fail() -> None:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            raise OSError

    with pytest.raises(KeyboardInterrupt):
        fail()


def test_each_signal_is_handled_once_after_the_context() -> None:
    handled: list[int] = []
    numbers = [signal.SIGINT, signal.SIGTERM]
    before = {each: signal.signal(each, lambda number, _: handled.append(number)) for each in numbers}
    try:
        with uninterrupted():
            for each in [*numbers, *numbers]:
                os.kill(os.getpid(), each)
            assert not handled
        assert handled == numbers
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def test_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("stream", ["1", "2"])
def test_program_that_writes_endlessly_is_killed(stream: str) -> None:
    with pytest.raises(OSError, match="`sh` wrote more than 1 MiB of output"):
        run(["sh", "-c", f"exec yes >&{stream}"], largest=1 << 20)


def test_program_that_reads_no_input_and_writes_much_does_not_block() -> None:
    assert len(run(["head", "-c", "3000000", "/dev/zero"], input=b"x" * 3_000_000).stdout) == 3_000_000


def test_input_and_output_are_exchanged_at_the_same_time() -> None:
    data = os.urandom(3_000_000)
    assert run(["cat"], input=data, timeout=30).stdout == data


def test_program_that_closes_its_output_is_stopped_at_the_time_limit() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run(["sh", "-c", "exec sleep 600 >&- 2>&-"], timeout=0.3)
