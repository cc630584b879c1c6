"""The thread that reads logs: commands, polling and sleeping."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tui_workbench.ui.logs.log_reader import LogReader
from tui_workbench.ui.logs.log_session import LogSession, LogState

PATIENCE_SECONDS = 20


class Taker:
    """A receiver of the reader's states, like the log view."""

    def __init__(self) -> None:
        self.news = threading.Event()
        self.reader = LogReader(self.news.set)
        self.reader.start()
        self.state = LogState()

    def until(self, condition: Callable[[LogState], bool]) -> LogState:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition(self.state):
            assert self.news.wait(deadline - time.monotonic()), f"never came: {self.state}"
            self.news.clear()
            self.state = self.reader.take() or self.state
        return self.state


@pytest.fixture
def taker() -> Iterator[Taker]:
    taker = Taker()
    yield taker
    taker.reader.close()
    taker.reader.thread.join(PATIENCE_SECONDS)
    assert not taker.reader.thread.is_alive()


def last_line(state: LogState) -> str:
    return state.rows[-1].line.plain if state.rows else ""


def test_open_returns_the_end_of_the_log(taker: Taker, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"1\n2\n3\n")
    revision = taker.reader.open(str(tmp_path / "log"), 80, 2)
    state = taker.until(lambda state: state.revision >= revision)
    assert [row.line.plain for row in state.rows] == ["2", "3"]
    revision = taker.reader.open(None)
    assert taker.until(lambda state: state.revision >= revision).rows == ()


def test_watched_log_is_followed_without_commands(taker: Taker, tmp_path: Path) -> None:
    log = tmp_path / "log"
    taker.reader.open(str(log), 80, 5)
    taker.reader.watch(True)
    log.write_bytes(b"first\n")
    taker.until(lambda state: last_line(state) == "first")
    with log.open("ab") as file:
        file.write(b"second\n")
    assert taker.until(lambda state: last_line(state) == "second").line_count == 2


def test_every_command_polls_an_unwatched_log(taker: Taker, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"first\n")
    revision = taker.reader.open(str(log), 80, 5)
    taker.until(lambda state: state.revision >= revision)
    log.write_bytes(b"first\nsecond\n")
    revision = taker.reader.watch(False)
    assert last_line(taker.until(lambda state: state.revision >= revision)) == "second"


def test_commands_run_in_order(taker: Taker, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"".join(b"%d\n" % n for n in range(100)))
    taker.reader.open(str(tmp_path / "log"), 80, 5)
    taker.reader.post(LogSession.go_to_start)
    for _ in range(7):
        revision = taker.reader.post(lambda session: session.move(1))
    assert taker.until(lambda state: state.revision >= revision).top_number == 7


def test_counting_lines_needs_no_further_command(taker: Taker, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"line\n" * 1_000_000)
    taker.reader.open(str(tmp_path / "log"), 80, 5)
    assert taker.until(lambda state: state.line_count == 1_000_000).pinned


def test_reader_becomes_idle(taker: Taker, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"line\n")
    taker.reader.open(str(tmp_path / "log"))
    revision = taker.reader.watch(False)
    taker.until(lambda state: state.revision >= revision)
    while not taker.reader.is_idle:
        time.sleep(0.001)


def test_take_raises_the_exception_of_the_thread(taker: Taker, tmp_path: Path) -> None:
    def stumble(session: LogSession) -> None:
        raise ZeroDivisionError

    taker.reader.open(str(tmp_path / "log"))
    taker.reader.post(stumble)
    with pytest.raises(ZeroDivisionError):
        taker.until(lambda state: False)
