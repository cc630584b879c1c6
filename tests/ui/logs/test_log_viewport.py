"""The visible rows of a log, and the anchor that stays on its text."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.runs.logs.test_log_file import on_log
from tui_workbench.runs.logs import log_file
from tui_workbench.runs.logs.log_file import LogFile
from tui_workbench.ui.logs.log_viewport import Anchor, Viewport, wrap_points

logs = st.lists(st.text(alphabet="ab漢 \n\u0301", max_size=30), max_size=12).map("".join).map(str.encode)
moves = st.lists(
    st.one_of(
        st.tuples(st.just("move"), st.integers(-12, 12)),
        st.tuples(st.sampled_from(["go_to_start", "go_to_end"])),
        st.tuples(st.just("resize"), st.integers(1, 20), st.integers(1, 9)),
        st.tuples(st.just("set_wrap"), st.booleans()),
    ),
    max_size=8,
)
patched = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def all_rows(viewport: Viewport) -> list[str]:
    """Return every row of the log, from a viewport that is high enough."""
    whole = Viewport(viewport.log)
    whole.set_wrap(viewport.wrap)
    whole.resize(viewport.width, 100_000)
    return texts(whole)


def texts(viewport: Viewport) -> list[str]:
    return [row.line.text.plain[row.first : row.last] for row in viewport.rows()]


def viewport_on(log: LogFile, *, width: int = 20, height: int = 4, wrap: bool = False) -> Viewport:
    viewport = Viewport(log)
    viewport.set_wrap(wrap)
    viewport.resize(width, height)
    viewport.refresh()
    return viewport


@patched
@given(data=logs, steps=moves)
def test_visible_rows_are_a_part_of_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, steps: list[tuple[str, int]]
) -> None:
    monkeypatch.setattr(log_file, "BLOCK", 16)
    with on_log(tmp_path / "log", data) as log:
        viewport = viewport_on(log)
        for name, *arguments in steps:
            before = viewport.top
            getattr(viewport, name)(*arguments)
            rows, shown = all_rows(viewport), texts(viewport)
            position = 0 if not rows else next(i for i in range(len(rows)) if anchor_of(viewport, i) == viewport.top)
            assert shown == rows[position : position + viewport.height]
            assert len(shown) == min(len(rows), viewport.height), "there are no blank rows below the last line"
            if name == "move" and arguments[0] < 0:
                assert viewport.top <= before
            if viewport.pinned:
                assert shown == rows[-viewport.height :]


def anchor_of(viewport: Viewport, position: int) -> Anchor:
    """Return the anchor of the row at this position of the whole log."""
    whole = Viewport(viewport.log)
    whole.set_wrap(viewport.wrap)
    whole.resize(viewport.width, 100_000)
    rows = whole.rows()
    line = rows[position].line.start
    return Anchor(line, position - next(i for i, row in enumerate(rows) if row.line.start == line))


@given(text=st.text(alphabet="ab漢\u0301 ", max_size=40), width=st.integers(1, 9))
def test_wrapping_keeps_all_text(text: str, width: int) -> None:
    cuts = [0, *wrap_points(text, width), len(text)]
    rows = [text[start:end] for start, end in pairwise(cuts)]
    assert "".join(rows) == text
    assert all(cell_len(row) <= max(width, 2) for row in rows)
    for row, following in pairwise(rows):
        assert cell_len(row) + cell_len(following[0]) > width, "a row is filled before the next one begins"


def test_pinned_viewport_follows_the_end(tmp_path: Path) -> None:
    with on_log(tmp_path / "log", b"1\n2\n3\n") as log:
        viewport = viewport_on(log, height=2)
        assert texts(viewport) == ["2", "3"]
        append(log, b"4\n5")
        viewport.refresh()
        assert texts(viewport) == ["4", "5"]


def test_unpinned_viewport_stays_on_its_text(tmp_path: Path) -> None:
    with on_log(tmp_path / "log", b"1\n2\n3\n") as log:
        viewport = viewport_on(log, height=2)
        viewport.move(-1)
        append(log, b"4\n5\n6\n")
        viewport.refresh()
        assert texts(viewport) == ["1", "2"]
        assert not viewport.pinned
        viewport.move(100)
        assert viewport.pinned
        assert texts(viewport) == ["5", "6"]


def test_moving_up_in_a_short_log_keeps_following(tmp_path: Path) -> None:
    with on_log(tmp_path / "log", b"1\n") as log:
        viewport = viewport_on(log, height=2)
        viewport.move(-3)
        assert viewport.pinned


def test_truncated_log_is_shown_from_its_start(tmp_path: Path) -> None:
    with on_log(tmp_path / "log", b"1\n2\n3\n4\n") as log:
        viewport = viewport_on(log, height=2)
        viewport.go_to_start()
        (tmp_path / "log").write_bytes(b"new\n")
        log.poll()
        viewport.refresh()
        assert texts(viewport) == ["new"]


def test_reveal_moves_only_to_hidden_lines(tmp_path: Path) -> None:
    with on_log(tmp_path / "log", b"".join(b"%02d\n" % n for n in range(50))) as log:
        viewport = viewport_on(log, height=6)
        viewport.go_to(30)
        viewport.reveal(36)
        assert viewport.top == Anchor(30)
        viewport.reveal(90)
        assert viewport.top == Anchor(84)
        assert not viewport.pinned


def test_long_line_shows_the_size_of_its_hidden_part(tmp_path: Path) -> None:
    with on_log(tmp_path / "log", b"x" * 10_000_000 + b"\n") as log:
        viewport = viewport_on(log)
        assert texts(viewport)[0].endswith("x … 10.0 MB more")


def append(log: LogFile, data: bytes) -> None:
    with Path(log.path).open("ab") as file:
        file.write(data)
    log.poll()
