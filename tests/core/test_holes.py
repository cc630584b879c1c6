"""Readers skip large holes, and only these."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tui_workbench.core.holes import LARGE, data_parts, end_of_hole, lines

HUGE = 1 << 40  # a terabyte, which no test could read


def sparse(path: Path, *parts: tuple[int, bytes], size: int = 0) -> Path:
    """Write a file with these bytes at these offsets, and holes between them."""
    with path.open("wb") as file:
        for offset, data in parts:
            file.seek(offset)
            file.write(data)
        file.truncate(max(size, file.tell()))
    return path


@pytest.mark.parametrize(
    ("offset", "end"),
    [(0, 0), (1 << 16, HUGE), (HUGE - LARGE, HUGE), (HUGE - LARGE + 1, HUGE - LARGE + 1), (HUGE, HUGE)],
)
def test_large_hole_is_skipped(tmp_path: Path, offset: int, end: int) -> None:
    path = sparse(tmp_path / "file", (0, b"first\n"), (HUGE, b"last\n"))
    with path.open("rb") as file:
        assert end_of_hole(file.fileno(), offset, HUGE + 5) == end


def test_hole_at_the_end_is_skipped(tmp_path: Path) -> None:
    path = sparse(tmp_path / "file", size=HUGE)
    with path.open("rb") as file:
        assert end_of_hole(file.fileno(), 0, HUGE) == HUGE
        assert list(data_parts(file.fileno(), HUGE)) == []


def test_position_of_a_buffered_reader_is_kept(tmp_path: Path) -> None:
    path = sparse(tmp_path / "file", (0, b"first\n" * 10_000), (8 * LARGE, b"last\n"))
    with path.open("rb") as file:
        file.read(3)
        end_of_hole(file.fileno(), 1 << 17, 8 * LARGE)
        assert file.read() == path.read_bytes()[3:]


def test_lines_around_a_hole_are_read(tmp_path: Path) -> None:
    path = sparse(tmp_path / "file", (0, b"first\n"), (HUGE, b"\nlast\n"))
    with path.open("rb") as file:
        found = list(lines(file, 1 << 10))
    assert (found[0], found[-1]) == (b"first\n", b"last\n")
    assert sum(map(len, found)) < 4 * LARGE


def test_file_system_without_holes_reports_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sparse(tmp_path / "file", size=4 * LARGE)
    monkeypatch.setattr(os, "SEEK_DATA", 1000)  # an unknown value, as on such a file system
    with path.open("rb") as file:
        assert end_of_hole(file.fileno(), 0, 4 * LARGE) == 0
        assert list(data_parts(file.fileno(), 4 * LARGE)) == [(0, 4 * LARGE)]
        assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == 0
