"""A program that reports on runs, started in the background. The host is this machine."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

from tui_workbench.core.waiting import wait_ready
from tui_workbench.targets.hosts.host import ConnectionLost, LocalHost
from tui_workbench.targets.ssh.background import FollowingProgram

LONG = 60.0


def program(script: str) -> FollowingProgram:
    return FollowingProgram(LocalHost(), lambda: ["sh", "-c", script])


def read(program: FollowingProgram) -> bytes:
    assert wait_ready([program.descriptor], timeout=LONG)
    return program.read()


def test_output_is_read_after_the_start() -> None:
    with contextlib.closing(program("read line; echo $line; exec cat")) as echo:
        assert echo.descriptor == -1
        echo.start()
        assert not echo.is_started
        assert read(echo) == b""
        assert echo.is_started
        echo.write(b"hello\n")
        assert read(echo) == b"hello\n"


def test_program_that_ends_is_started_again_after_a_pause(tmp_path: Path) -> None:
    with contextlib.closing(program(f"echo >>{tmp_path}/starts")) as short:
        for _ in range(2):
            wait_ready([], timeout=max(0.0, short.start_due - time.monotonic()))
            short.start()
            assert read(short) == b""
            short.accept_answer()
            with pytest.raises(ConnectionLost, match="the connection was lost while its runs were being followed"):
                read(short)
            before = time.monotonic()
            short.fail()
            assert short.start_due > before
            assert short.descriptor == -1
            assert not short.has_answered
    assert (tmp_path / "starts").read_text() == "\n\n"


def test_program_that_is_closed_while_it_starts_can_be_started_again() -> None:
    with contextlib.closing(program("echo hello; exec cat")) as closed:
        closed.start()
        closed.close()
        assert closed.descriptor == -1
        closed.start()
        assert read(closed) == b""
        assert read(closed) == b"hello\n"
