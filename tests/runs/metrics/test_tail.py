"""Reading growing files: each complete line once, in order, for any way of writing and reading."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies

from tests.runs.metrics.support import write
from tui_workbench.runs.metrics import tail
from tui_workbench.runs.metrics.tail import Tail


@hypothesis.given(
    parts=strategies.lists(strategies.binary(max_size=30).map(lambda data: data.replace(b"\r", b"\n")), max_size=12),
    chunk=strategies.integers(1, 20),
)
@hypothesis.settings(max_examples=150, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_each_complete_line_is_read_once_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: list[bytes], chunk: int
) -> None:
    monkeypatch.setattr(tail, "CHUNK", chunk)
    path = tmp_path / "file"
    path.unlink(missing_ok=True)
    found, following = b"", Tail(str(path))
    for part in parts:
        write(path, part, append=True)
        for block in following.blocks():
            assert block.endswith(b"\n")
            found += block
        assert not following.restarted
    whole = b"".join(parts)
    assert found == whole[: whole.rfind(b"\n") + 1]


def test_overlong_line_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "CHUNK", 8)
    monkeypatch.setattr(tail, "LONGEST_LINE", 64)
    following = Tail(str(tmp_path / "file"))
    write(tmp_path / "file", b"before\n" + b"x" * 300)
    found = b"".join(following.blocks())
    write(tmp_path / "file", b"x" * 50 + b"\nbehind\n", append=True)
    found += b"".join(following.blocks())
    assert found == b"before\nbehind\n"


def test_missing_or_special_file_yields_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("nowhere", ".", "pipe", "zero"):
        assert list(Tail(str(tmp_path / name)).chunks()) == []


def test_briefly_missing_file_continues_at_its_offset(tmp_path: Path) -> None:
    following = Tail(str(tmp_path / "file"))
    write(tmp_path / "file", b"one\n")
    assert list(following.blocks()) == [b"one\n"]
    (tmp_path / "file").rename(tmp_path / "away")
    assert list(following.blocks()) == []
    (tmp_path / "away").rename(tmp_path / "file")
    write(tmp_path / "file", b"two\n", append=True)
    assert list(following.blocks()) == [b"two\n"]
    assert not following.restarted


def test_large_file_is_read_at_its_start_and_end(tmp_path: Path) -> None:
    lines = [b"%06d\n" % number for number in range(1000)]
    write(tmp_path / "file", b"".join(lines))
    following = Tail(str(tmp_path / "file"), at_most=100)
    found = b"".join(following.blocks()).splitlines(keepends=True)
    assert found[:5] == lines[:5]
    assert found[-5:] == lines[-5:]
    assert len(found) < 2 * 100 // 7
    assert set(found) <= set(lines)
    write(tmp_path / "file", b"new\n", append=True)
    assert list(following.blocks()) == [b"new\n"]


def test_line_longer_than_the_limit_is_read(tmp_path: Path) -> None:
    write(tmp_path / "file", b"x" * 1000 + b"\n" + b"short\n" * 100)
    found = b"".join(Tail(str(tmp_path / "file"), at_most=100).blocks())
    assert found.startswith(b"x" * 1000 + b"\n")
    assert found.endswith(b"short\n")
    write(tmp_path / "other", b"short\n" * 100 + b"x" * 1000 + b"\n")
    assert set(b"".join(Tail(str(tmp_path / "other"), at_most=100).blocks()).split()) == {b"short"}


def test_hole_of_a_terabyte_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.write(b"before\n")
        file.seek(1 << 40)
        file.write(b"\nbehind\n")
    following = Tail(str(path))
    assert b"".join(following.blocks()).replace(b"\0", b"") == b"before\nbehind\n"
    write(path, b"more\n", append=True)
    assert list(following.blocks()) == [b"more\n"]


def test_link_to_a_file_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "secret", b"password\n")
    (tmp_path / "file").symlink_to(tmp_path / "secret")
    following = Tail(str(tmp_path / "file"))
    assert list(following.blocks()) == []
    assert following.unread == 0
