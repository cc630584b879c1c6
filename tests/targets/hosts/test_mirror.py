"""Following a growing file of a host: the copy has the same bytes, whatever process ends."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests.waiting import wait_until
from tui_workbench.core.errors import TargetUnreachable
from tui_workbench.core.waiting import BackgroundCall, Interrupted, wait_ready
from tui_workbench.targets.hosts.host import Host, HostProcess, LocalHost
from tui_workbench.targets.hosts.mirror import Mirror, follow


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "output.log"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy.log"


class BreakingHost(LocalHost):
    """A host whose connection breaks when `hang_up` is called."""

    def read(self, path: str, offset: int = 0) -> HostProcess:
        self._process = super().read(path, offset)
        return self._process

    def hang_up(self) -> None:
        # The process ends when its input ends, as it does if the connection breaks.
        self._process.close_stdin()


def mirror_of(source: Path, copy: Path, host: Host | None = None) -> Mirror:
    return Mirror(host or LocalHost(), str(source), str(copy.parent), copy.name)


def pump_until(mirror: Mirror, descriptor: int, copy: Path, expected: bytes) -> None:
    while copy.read_bytes() != expected:
        assert wait_ready([descriptor], timeout=120)
        assert mirror.pump()


def test_bytes_arrive_as_they_are_written(source: Path, copy: Path) -> None:
    with mirror_of(source, copy) as mirror:
        descriptor = mirror.open()  # before there is a file
        for data in (b"one\n", b"no newline \xff\x00", b"\r\n" * 1000):
            with source.open("ab") as file:
                file.write(data)
            pump_until(mirror, descriptor, copy, source.read_bytes())


def test_next_mirror_continues_at_the_right_byte(source: Path, copy: Path) -> None:
    source.write_bytes(b"0123456789" * 10_000)
    with mirror_of(source, copy) as mirror:
        mirror.open()
        mirror.pump()
    taken = copy.stat().st_size
    assert taken > 0
    os.truncate(copy, taken // 2)  # as if the disk had lost a part
    with mirror_of(source, copy) as mirror:
        mirror.drain()
    assert copy.read_bytes() == source.read_bytes()


def test_draining_a_missing_file_copies_nothing(source: Path, copy: Path) -> None:
    with mirror_of(source, copy) as mirror:
        mirror.drain()
    assert copy.read_bytes() == b""


def test_killed_program_on_the_host_does_not_end_the_copy(
    source: Path, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.write_bytes(b"text")
    killing = tmp_path / "bin" / "wc"
    killing.parent.mkdir()
    killing.write_text("#!/bin/sh\nkill -9 $PPID\n")
    killing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{killing.parent}:{os.environ['PATH']}")
    with mirror_of(source, copy) as mirror, pytest.raises(TargetUnreachable, match="size of the log"):
        mirror.drain()
    killing.unlink()
    with mirror_of(source, copy) as mirror:
        mirror.drain()
    assert copy.read_bytes() == b"text"


def test_only_one_process_copies(source: Path, copy: Path) -> None:
    source.write_bytes(b"text")
    with mirror_of(source, copy) as first:
        descriptor = first.open()
        with mirror_of(source, copy) as second:
            assert second.open() == -1
        pump_until(first, descriptor, copy, b"text")
    with mirror_of(source, copy) as third:
        third.drain()
    assert copy.read_bytes() == b"text"


def test_end_of_source_is_a_lost_connection(source: Path, copy: Path) -> None:
    source.touch()
    host = BreakingHost()
    with mirror_of(source, copy, host) as mirror:
        mirror.open()
        host.hang_up()
        assert not mirror.pump()
        with pytest.raises(TargetUnreachable):
            mirror.end()


def test_follow_copies_the_last_byte(source: Path, copy: Path) -> None:
    ended = threading.Event()

    def work() -> None:
        with source.open("ab") as file:
            file.writelines(b"%d\n" % number for number in range(50_000))
        ended.set()

    with BackgroundCall(work) as background, mirror_of(source, copy) as mirror:
        follow(background.descriptor, background.result, mirror, -1)
    assert ended.is_set()
    assert copy.read_bytes() == source.read_bytes()


def test_follow_can_be_interrupted(source: Path, copy: Path) -> None:
    reading, writing = os.pipe()
    release = threading.Event()
    try:
        with BackgroundCall(lambda: release.wait(120)) as background, mirror_of(source, copy) as mirror:
            os.write(writing, b"x")
            with pytest.raises(Interrupted):
                follow(background.descriptor, background.result, mirror, reading)
            with pytest.raises(Interrupted):
                background.wait(reading)
            assert not background.wait(timeout=0)
    finally:
        release.set()
        os.close(reading)
        os.close(writing)


def test_wait_reraises_the_error_of_a_background_call() -> None:
    def fail() -> None:
        raise ValueError("told")

    with BackgroundCall(fail) as background, pytest.raises(ValueError, match="told"):
        background.wait()


def test_abandoned_background_call_is_harmless() -> None:
    release = threading.Event()
    before = threading.active_count()
    with BackgroundCall(lambda: release.wait(120)):
        pass
    release.set()
    wait_until(lambda: threading.active_count() <= before)
