"""Reading parts of a log gives the same results as reading all of it."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tui_workbench.core.errors import StorageError
from tui_workbench.runs.logs import log_file
from tui_workbench.runs.logs.log_file import LogFile, follow
from tui_workbench.runs.logs.log_search import Pattern, Search

# Line lengths are around the limits of this module, which are small here: the block size, the longest line, and the
# longest text without a newline that is not remembered.
texts = st.lists(
    st.tuples(st.integers(0, 12) | st.integers(20, 90), st.sampled_from(["\n", "\n", "\n", ""])), max_size=30
).map(lambda parts: b"".join(b"%d" % (n % 10) * n + end.encode() for n, end in parts))


@pytest.fixture
def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "BLOCK", 8)
    monkeypatch.setattr(log_file, "LINE_CAP", 16)
    monkeypatch.setattr(log_file, "FIRST_READ", 4)


def on_log(path: Path, data: bytes) -> LogFile:
    path.write_bytes(data)
    log = LogFile(str(path))
    log.poll()
    return log


def starts_of(data: bytes) -> list[int]:
    return [0, *(i + 1 for i, byte in enumerate(data) if byte == 10 and i + 1 < len(data))] if data else []


patched = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.usefixtures("tiny_blocks")
class TestLines:
    @pytest.mark.slow
    @patched
    @given(data=texts, counted=st.integers(0, 3), order=st.randoms())
    def test_lines_equal_the_whole_file(self, tmp_path: Path, data: bytes, counted: int, order: random.Random) -> None:
        with on_log(tmp_path / "log", data) as log:
            for _ in range(counted * 5):
                log.index(7)
            starts = starts_of(data)
            ends = [*starts[1:], len(data)] if data else []
            questions = list(range(len(starts)))
            order.shuffle(questions)
            for i in questions:
                (line,) = log.lines_from(starts[i], 1)
                content = data[starts[i] : ends[i]].removesuffix(b"\n")
                assert (line.start, line.end, line.stop) == (starts[i], ends[i], starts[i] + len(content))
                assert len(line.data) + line.cut == len(content)
                assert content.startswith(line.data)
                assert line.data == content[: log_file.LINE_CAP]
                for offset in {starts[i], ends[i] - 1}:
                    assert log.line_start(offset) == starts[i]
                for count in (1, 2, 5):
                    assert [it.start for it in log.lines_from(starts[i], count)] == starts[i : i + count]
                    before = starts[max(0, i + 1 - count) : i + 1]
                    assert [it.start for it in log.lines_before(ends[i], count)] == before
            for count in range(len(starts) + 2):
                assert log.start_before(log.size, count) == (
                    [*starts, len(data)][-count - 1] if count < len(starts) else 0
                )

    @patched
    @given(data=texts, step=st.integers(1, 20))
    def test_lines_are_counted_and_found_by_number(self, tmp_path: Path, data: bytes, step: int) -> None:
        with on_log(tmp_path / "log", data) as log:
            starts = starts_of(data)
            assert log.line_count == (None if data else 0)
            while not log.index(step):
                assert log.line_count is None
                assert log.line_number(log.counted + 1) is None
                assert log.line_number(log.counted) == data[: log.counted].count(b"\n")
            assert log.line_count == len(starts)
            for number, start in enumerate(starts):
                assert log.line_number(start) == number
                assert log.line_offset(number) == start
            assert log.line_offset(len(starts)) is (None if starts else 0) or not starts

    @pytest.mark.slow
    @patched
    @given(first=texts, second=texts)
    def test_lines_are_right_while_the_file_grows(self, tmp_path: Path, first: bytes, second: bytes) -> None:
        with on_log(tmp_path / "log", first) as log:
            while not log.index():
                pass
            log.start_before(log.size, 1)
            with (tmp_path / "log").open("ab") as file:
                file.write(second)
            assert log.poll() is bool(second)
            while not log.index():
                pass
            starts = starts_of(first + second)
            assert log.line_count == len(starts)
            assert [line.start for line in log.lines_before(log.size, 3)] == starts[-3:]
            assert [line.start for line in log.lines_from(0, 1000)] == starts

    def test_long_line_is_cut_at_its_end(self, tmp_path: Path) -> None:
        with on_log(tmp_path / "log", b"x" * 100 + b"\nnext\n") as log:
            first, second = log.lines_from(0, 9)
            assert (first.data, first.cut) == (b"x" * 16, 84)
            assert second.data == b"next"

    def test_long_progress_bar_shows_its_last_state(self, tmp_path: Path) -> None:
        bar = b"".join(b"\r%3d%% done" % percent for percent in range(101))
        with on_log(tmp_path / "log", bar) as log:
            (line,) = log.lines_from(0, 9)
            assert line.data == b"100% done"
            assert line.cut == len(line.data) - len(bar)

    def test_cut_keeps_characters_and_colors_whole(self, tmp_path: Path) -> None:
        for text, shown in [
            ("x" * 15 + "ü" + "y" * 20, b"x" * 15),
            ("x" * 14 + "ü" + "y" * 20, b"x" * 14 + "ü".encode()),
            ("x" * 13 + "🚀" + "y" * 20, b"x" * 13),
            ("x" * 13 + "\x1b[31m" + "y" * 20, b"x" * 13),
            ("x" * 11 + "\x1b[31m" + "y" * 20, b"x" * 11 + b"\x1b[31m"),
        ]:
            with on_log(tmp_path / "log", text.encode()) as log:
                assert log.lines_from(0, 1)[0].data == shown


class TestWhatHappensToTheFile:
    def test_missing_log_is_empty(self, tmp_path: Path) -> None:
        log = LogFile(str(tmp_path / "log"))
        assert log.poll() is False
        assert (log.size, log.problem, log.lines_from(0, 5)) == (0, None, [])
        (tmp_path / "log").write_bytes(b"here\n")
        assert log.poll() is True
        assert [line.data for line in log.lines_from(0, 5)] == [b"here"]
        log.close()

    def test_unchanged_log_reports_no_change(self, tmp_path: Path) -> None:
        with on_log(tmp_path / "log", b"a\n") as log:
            assert log.poll() is False

    @pytest.mark.parametrize("new", [b"", b"b\n"])
    def test_truncated_log_is_read_again(self, tmp_path: Path, new: bytes) -> None:
        with on_log(tmp_path / "log", b"first\nsecond\n") as log:
            log.index()
            (tmp_path / "log").write_bytes(new)
            assert log.poll() is True
            assert (log.generation, log.size, log.counted) == (1, len(new), 0)
            log.index()
            assert log.line_count == len(new) // 2

    def test_replaced_log_is_read_again(self, tmp_path: Path) -> None:
        with on_log(tmp_path / "log", b"first\n") as log:
            (tmp_path / "new").write_bytes(b"another, longer one\n")
            (tmp_path / "new").rename(tmp_path / "log")
            assert log.poll() is True
            assert log.generation == 1
            assert log.lines_from(0, 1)[0].data == b"another, longer one"

    def test_deleted_log_stays_readable(self, tmp_path: Path) -> None:
        with on_log(tmp_path / "log", b"first\n") as log:
            (tmp_path / "log").unlink()
            assert log.poll() is False
            assert log.lines_from(0, 1)[0].data == b"first"

    def test_truncation_between_polls_ends_searches(self, tmp_path: Path) -> None:
        with on_log(tmp_path / "log", b"x" * 300_000) as log:
            os.truncate(tmp_path / "log", 10)
            assert log.lines_from(0, 5) == []
            assert log.start_before(log.size, 3) == 0
            assert log.index(1 << 20) is True
            assert log.line_count is None

    def test_special_file_is_a_problem_with_a_remedy(self, tmp_path: Path) -> None:
        log = LogFile(str(tmp_path))
        assert log.poll() is True
        assert log.problem is not None
        assert str(tmp_path) in str(log.problem)
        assert log.problem.remedy
        assert log.poll() is False
        assert log.lines_from(0, 5) == []


class TestBigLogs:
    def test_end_of_a_large_file_is_read_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "log"
        path.write_bytes(b"the only line that is not a hole\n")
        os.truncate(path, 8 << 30)  # sparse: it takes no disk, and reading it all would take seconds
        with path.open("r+b") as file:
            file.seek(0, os.SEEK_END)
            file.write(b"\nlast but one\nlast")
        with LogFile(str(path)) as log:
            assert [line.data for line in log.lines_before(log.size, 2)] == [b"last but one", b"last"]
            assert log.counted == log.begin

    @pytest.mark.parametrize("shown", [None, 24])
    def test_only_the_end_of_a_huge_log_is_shown_and_searched(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: int | None
    ) -> None:
        path = tmp_path / "log"
        with path.open("wb") as file:
            file.write(b"needle in the part that is not shown\n")
            if shown is None:
                file.seek(1 << 40)
            else:
                monkeypatch.setattr(log_file, "MOST_SHOWN", shown)
                monkeypatch.setattr(log_file, "BLOCK", 8)
            file.write(b"first\nsecond needle\nlast")
        with LogFile(str(path)) as log:
            assert [line.data[-6:] for line in log.lines_before(log.size, 9)][-2:] == [b"needle", b"last"]
            assert log.lines_from(0, 9) == log.lines_before(log.size, 9)
            assert log.line_start(1) == log.begin == log.line_offset(0)
            while not log.index(1 << 30):
                pass
            count = log.line_count or 0
            assert count <= 4
            assert (log.line_number(log.size), log.line_offset(count - 1)) == (count - 1, log.size - 4)
            needle = log.line_offset(count - 2) or 0
            search = Search(log, Pattern("needle"))
            while not search.count():
                pass
            assert (search.matches, search.ordinal(needle)) == (1, 1)
            found = [next(filter(None, each)) for each in (search.forward(0), search.backward(log.size))]
            assert found == [needle] * 2
            assert list(filter(None, search.backward(needle))) == []

    def test_log_that_grows_by_a_hole_starts_over_when_it_ends(self, tmp_path: Path) -> None:
        path = tmp_path / "log"
        with on_log(path, b"first\n") as log:
            os.truncate(path, 1 << 40)
            log.poll()
            assert log.size < 1 << 20
            assert log.generation == 0
            with path.open("ab") as file:
                file.write(b"second\n")
            assert log.poll()
            assert log.generation == 1
            assert [line.data for line in log.lines_before(log.size, 2)] == [b"second"]

    def test_lines_before_an_end_in_front_of_a_hole_are_found(self, tmp_path: Path) -> None:
        path = tmp_path / "log"
        path.write_bytes(b"one\ntwo\n")
        os.truncate(path, 1 << 40)
        with LogFile(str(path), end=8) as log:
            assert [line.data for line in log.lines_before(log.size, 1)] == [b"two"]

    def test_ten_megabytes_without_a_newline_are_read_once(self, tmp_path: Path) -> None:
        with on_log(tmp_path / "log", b"before\n" + b"x" * 10_000_000 + b"\nafter\n") as log:
            lines = log.lines_before(log.size, 3)
            assert [line.data for line in (lines[0], lines[2])] == [b"before", b"after"]
            assert len(lines[1].data) + lines[1].cut == 10_000_000
            reads: list[int] = []
            real = log.read
            log.read = lambda offset, length: reads.append(length) or real(offset, length)  # type: ignore
            assert log.lines_before(log.size, 3) == lines
            assert log.lines_from(0, 3) == lines
            assert sum(reads) < 20 * log_file.BLOCK


class Stopped(Exception):
    pass


class TestFollow:
    def test_follow_yields_every_byte_once(self, tmp_path: Path) -> None:
        path = tmp_path / "log"
        written = b"".join(b"line %d\n" % number for number in range(20_000))
        done = threading.Event()

        def write() -> None:
            with path.open("wb", buffering=0) as file:
                for start in range(0, len(written), 997):
                    file.write(written[start : start + 997])
            done.set()

        writer = threading.Thread(target=write)
        writer.start()
        seen = b"".join(follow(str(path), 0, ended=done.is_set, wait=lambda: None))
        writer.join()
        assert seen == written

    def test_follow_starts_at_an_offset(self, tmp_path: Path) -> None:
        (tmp_path / "log").write_bytes(b"0123456789")
        assert b"".join(follow(str(tmp_path / "log"), 4, ended=lambda: True, wait=lambda: None)) == b"456789"

    def test_follow_yields_the_last_bytes(self, tmp_path: Path) -> None:
        path = tmp_path / "log"

        def ended() -> bool:
            path.write_bytes(b"last words")  # after this read of the state, and before the next read of the file
            return True

        assert b"".join(follow(str(path), 0, ended=ended, wait=lambda: None)) == b"last words"

    def test_follow_waits_for_new_bytes(self, tmp_path: Path) -> None:
        def wait() -> None:
            raise Stopped

        with pytest.raises(Stopped):
            list(follow(str(tmp_path / "log"), 0, ended=lambda: False, wait=wait))

    def test_follow_reports_read_errors(self, tmp_path: Path) -> None:
        with pytest.raises(StorageError):
            list(follow(str(tmp_path), 0, ended=lambda: True, wait=lambda: None))
