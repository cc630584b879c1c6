"""A session knows where one is in a log, finds things from there, and does nothing that takes long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui_workbench.runs.logs.log_search import Pattern
from tui_workbench.ui.logs.log_session import NO_LINE, LogSession, LogState

LINES = b"".join(b"line %03d %s\n" % (n, b"needle" if n % 30 == 7 else b"hay") for n in range(100))


def session_on(path: Path, data: bytes, *, height: int = 10) -> LogSession:
    path.write_bytes(data)
    session = LogSession(str(path))
    session.viewport.resize(80, height)
    session.poll()
    return session


def settled(session: LogSession) -> LogState:
    """What it shows when nothing is left to do."""
    while session.work():
        pass
    return session.state(0)


def shown(state: LogState) -> list[str]:
    return [row.line.plain for row in state.rows]


def append(session: LogSession, path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)
    assert session.poll()


class TestWhere:
    def test_a_log_is_opened_at_its_end(self, tmp_path: Path) -> None:
        state = settled(session_on(tmp_path / "log", LINES))
        assert shown(state)[-1] == "line 099 hay"
        assert (state.pinned, state.line_count, state.top_number) == (True, 100, 90)
        assert (state.total, state.position) == (100, 90)

    def test_leaving_the_end_counts_what_comes(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        session.move(-1)
        append(session, tmp_path / "log", b"a\nb\nc\n")
        state = settled(session)
        assert (state.pinned, state.new_lines, state.line_count) == (False, 3, 103)
        assert shown(state)[0] == "line 089 hay"
        session.go_to_end()
        assert settled(session).new_lines == 0

    def test_pages_leave_a_line_in_common(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        session.go_to_start()
        session.page(1)
        assert shown(settled(session))[0] == "line 009 hay"
        session.page(-0.5)
        assert shown(settled(session))[0] == "line 004 hay"

    @pytest.mark.parametrize("counted", [True, False])
    def test_a_line_can_be_gone_to_by_its_number(self, tmp_path: Path, counted: bool) -> None:
        equal = b"".join(b"%07d\n" % n for n in range(400_000))  # more than what is counted at once
        session = session_on(tmp_path / "log", equal)
        if counted:
            settled(session)
        assert (session.state(0).line_count is not None) == counted
        session.go_to_line(123_456)
        assert shown(session.state(0))[0] == "0123456"
        assert session.state(0).position == pytest.approx(123_456)
        session.go_to_line(400_000)
        assert session.state(0).pinned

    def test_a_log_that_starts_over_forgets_what_was_known(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        session.search(Pattern("needle"))
        settled(session)
        (tmp_path / "log").write_bytes(b"needle\n")
        session.poll()
        state = settled(session)
        assert (state.mark, state.line_count) == (NO_LINE, 1)
        assert state.search is not None
        assert state.search.matches == 1

    def test_an_empty_log_and_one_that_is_missing_show_nothing(self, tmp_path: Path) -> None:
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
    def test_goes_to_the_nearest_match_before_a_pinned_end(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        session.begin_search()
        session.search(Pattern("needle"))
        state = settled(session)
        assert marked(state) == "line 097 needle"
        assert state.search is not None
        assert (state.search.ordinal, state.search.matches, state.search.counted) == (4, 4, True)

    def test_goes_forward_from_where_one_reads(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        session.go_to_start()
        session.begin_search()
        session.search(Pattern("needle"))
        assert marked(settled(session)) == "line 007 needle"

    def test_steps_from_match_to_match_and_around_the_end(self, tmp_path: Path) -> None:
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

    def test_every_letter_searches_from_where_it_began(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        session.go_to_start()
        session.begin_search()
        for text in ("l", "line 05", "line 0"):
            session.search(Pattern(text))
            settled(session)
        assert marked(settled(session)) == "line 000 hay"

    def test_giving_up_goes_back_to_where_it_began(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        session.begin_search()
        session.search(Pattern("line 007"))
        assert not settled(session).pinned
        session.end_search(keep=False)
        state = settled(session)
        assert (state.pinned, state.mark, state.search) == (True, NO_LINE, None)

    def test_what_is_not_there_moves_nothing(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        session.search(Pattern("nowhere"))
        state = settled(session)
        assert state.search is not None
        assert (state.search.matches, state.search.counted, state.search.looking) == (0, True, False)
        assert (state.pinned, state.mark) == (True, NO_LINE)

    def test_moving_on_ends_looking(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        session.search(Pattern("line 007"))
        session.move(-1)
        assert settled(session).mark == NO_LINE

    def test_counts_on_while_the_log_grows(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        session.search(Pattern("needle"))
        settled(session)
        append(session, tmp_path / "log", b"needle\nneedle\n")
        state = settled(session)
        assert state.search is not None
        assert state.search.matches == 6


class TestTraceback:
    TEXT = b'Traceback (most recent call last):\n  File "t.py", line 3, in f\n    x\nValueError: no\n'

    def test_is_found_wherever_it_is(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", self.TEXT + LINES)
        state = settled(session)
        assert state.traceback is not None
        assert state.traceback.exception == "ValueError: no"
        session.show_traceback()
        assert shown(settled(session))[0] == "Traceback (most recent call last):"
        assert settled(session).mark == 0

    def test_is_found_when_it_comes_in_pieces(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        for start in range(0, len(self.TEXT), 5):
            append(session, tmp_path / "log", self.TEXT[start : start + 5])
            settled(session)
        found = settled(session).traceback
        assert found is not None
        assert (found.offset, found.exception) == (len(LINES), "ValueError: no")

    def test_there_is_none_in_most_logs(self, tmp_path: Path) -> None:
        session = session_on(tmp_path / "log", LINES)
        assert settled(session).traceback is None
        session.show_traceback()
        assert settled(session).pinned


def marked(state: LogState) -> str:
    return next(row.line.plain for row in state.rows if row.line.start == state.mark)
