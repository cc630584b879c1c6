"""Moving, searching and finding tracebacks in an open log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tui_workbench.core.model import Run, RunState
from tui_workbench.projects.project import STATE_DIRECTORY, state_elsewhere
from tui_workbench.runs.logs.log_search import Pattern
from tui_workbench.ui.logs.log import in_project
from tui_workbench.ui.logs.log_session import NO_LINE, LogSession, LogState

LINES = b"".join(b"line %03d %s\n" % (n, b"needle" if n % 30 == 7 else b"hay") for n in range(100))


def session_on(path: Path, data: bytes, *, height: int = 10) -> LogSession:
    path.write_bytes(data)
    session = LogSession(str(path))
    session.viewport.resize(80, height)
    session.poll()
    return session


def settled(session: LogSession) -> LogState:
    """Do all work and return the state."""
    while session.work():
        pass
    return session.state(0)


def shown(state: LogState) -> list[str]:
    return [row.line.plain for row in state.rows]


def append(session: LogSession, path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)
    assert session.poll()


class TestMoving:
    def test_log_opens_at_its_end(self, tmp_path: Path) -> None:
        state = settled(session_on(tmp_path / "log", LINES))
        assert shown(state)[-1] == "line 099 hay"
        assert (state.pinned, state.line_count, state.top_number) == (True, 100, 90)
        assert (state.total, state.position) == (100, 90)

    def test_new_lines_are_counted_after_leaving_the_end(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        session.move(-1)
        append(session, tmp_path / "log", b"a\nb\nc\n")
        state = settled(session)
        assert (state.pinned, state.new_lines, state.line_count) == (False, 3, 103)
        assert shown(state)[0] == "line 089 hay"
        session.go_to_end()
        assert settled(session).new_lines == 0

    def test_page_keeps_one_line(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        session.go_to_start()
        session.page(1)
        assert shown(settled(session))[0] == "line 009 hay"
        session.page(-0.5)
        assert shown(settled(session))[0] == "line 004 hay"

    @pytest.mark.parametrize("counted", [True, False])
    def test_go_to_line_by_number(self, tmp_path: Path, counted: bool) -> None:
        equal = b"".join(b"%07d\n" % n for n in range(400_000))  # more bytes than are counted at once
        session = session_on(tmp_path / "log", equal)
        if counted:
            settled(session)
        assert (session.state(0).line_count is not None) == counted
        session.go_to_line(123_456)
        assert shown(session.state(0))[0] == "0123456"
        assert session.state(0).position == pytest.approx(123_456)
        session.go_to_line(400_000)
        assert session.state(0).pinned

    def test_truncated_log_resets_the_session(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        session.search(Pattern("needle"))
        settled(session)
        (tmp_path / "log").write_bytes(b"needle\n")
        session.poll()
        state = settled(session)
        assert (state.mark, state.line_count) == (NO_LINE, 1)
        assert state.search is not None
        assert state.search.matches == 1

    def test_empty_and_missing_logs_have_no_rows(self, tmp_path: Path) -> None:
        assert settled(session_on(tmp_path / "log", b"")) == LogState()
        session = LogSession(str(tmp_path / "missing"))
        session.poll()
        session.move(1)
        session.page(-1)
        session.go_to_start()
        session.step(1)
        session.search(Pattern("x"))
        assert settled(session).rows == ()


class TestSearch:
    def test_search_goes_backwards_from_a_pinned_end(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        session.begin_search()
        session.search(Pattern("needle"))
        state = settled(session)
        assert marked(state) == "line 097 needle"
        assert state.search is not None
        assert (state.search.ordinal, state.search.matches, state.search.counted) == (4, 4, True)

    def test_search_goes_forwards_from_the_top(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        session.go_to_start()
        session.begin_search()
        session.search(Pattern("needle"))
        assert marked(settled(session)) == "line 007 needle"

    def test_step_wraps_at_the_end(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        session.go_to_start()
        session.search(Pattern("needle"))
        seen = []
        for direction in (1, 1, 1, 1, -1):
            settled(session)
            session.step(direction)
            state = settled(session)
            assert state.search is not None
            seen.append((marked(state), state.search.ordinal, state.search.wrapped))
        assert seen == [
            ("line 037 needle", 2, False),
            ("line 067 needle", 3, False),
            ("line 097 needle", 4, False),
            ("line 007 needle", 1, True),
            ("line 097 needle", 4, True),
        ]

    def test_each_search_starts_at_the_saved_position(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        session.go_to_start()
        session.begin_search()
        for text in ("l", "line 05", "line 0"):
            session.search(Pattern(text))
            settled(session)
        assert marked(settled(session)) == "line 000 hay"

    def test_canceled_search_returns_to_the_saved_position(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        session.begin_search()
        session.search(Pattern("line 007"))
        assert not settled(session).pinned
        session.end_search(keep=False)
        state = settled(session)
        assert (state.pinned, state.mark, state.search) == (True, NO_LINE, None)

    def test_search_without_match_does_not_move(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        session.search(Pattern("nowhere"))
        state = settled(session)
        assert state.search is not None
        assert (state.search.matches, state.search.counted, state.search.looking) == (0, True, False)
        assert (state.pinned, state.mark) == (True, NO_LINE)

    def test_moving_stops_a_running_search(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        session.search(Pattern("line 007"))
        session.move(-1)
        assert settled(session).mark == NO_LINE

    def test_matches_in_new_lines_are_counted(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        session.search(Pattern("needle"))
        settled(session)
        append(session, tmp_path / "log", b"needle\nneedle\n")
        state = settled(session)
        assert state.search is not None
        assert state.search.matches == 6


class TestTraceback:
    TEXT = b'Traceback (most recent call last):\n  File "t.py", line 3, in f\n    x\nValueError: no\n'

    def test_traceback_is_found_anywhere(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", self.TEXT + LINES)
        state = settled(session)
        assert state.traceback is not None
        assert state.traceback.exception == "ValueError: no"
        session.show_traceback()
        assert shown(settled(session))[0] == "Traceback (most recent call last):"
        assert settled(session).mark == 0

    def test_traceback_written_in_pieces_is_found(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        for start in range(0, len(self.TEXT), 5):
            append(session, tmp_path / "log", self.TEXT[start : start + 5])
            settled(session)
        found = settled(session).traceback
        assert found is not None
        assert (found.offset, found.exception) == (len(LINES), "ValueError: no")

    def test_log_without_traceback(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        assert settled(session).traceback is None
        session.show_traceback()
        assert settled(session).pinned


def marked(state: LogState) -> str:
    return next(row.line.plain for row in state.rows if row.line.start == state.mark)


@pytest.mark.parametrize("is_read_only", [False, True])
def test_error_location_leads_to_the_file_of_the_project(is_read_only: bool) -> None:
    root = "/a/my%2Fproject"
    directory = os.path.join(state_elsewhere(root) if is_read_only else f"{root}/{STATE_DIRECTORY}", "runs", "p_1")
    run = Run("p_1", 1, directory, "train.py", (), "local", "local", "local", RunState.FAILED)
    for path in (f"{directory}/work/src/train.py", f"{root}/src/train.py"):
        assert in_project(run, path) == (root, "src/train.py")
    assert in_project(run, "/usr/lib/python3/json/decoder.py")[1] == "/usr/lib/python3/json/decoder.py"
