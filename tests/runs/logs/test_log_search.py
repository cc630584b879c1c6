"""Searching a log finds all matching lines and counts them like `grep -c`."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.runs.logs.test_log_file import on_log, starts_of
from tui_workbench.core.errors import UsageError
from tui_workbench.runs.logs import log_file, log_search
from tui_workbench.runs.logs.log_search import Pattern, Search

words = st.sampled_from(["a", "ab", "AB", "loss", "x" * 20, "ü", "Ü", "漢", " ", "\x1b[31m", "\x1b[0m", "aab", "\xff"])
logs = st.lists(st.lists(words, max_size=6).map("".join), max_size=25).flatmap(
    lambda lines: st.sampled_from(["\n".join(lines).encode(), "".join(line + "\n" for line in lines).encode()])
)
patterns = st.sampled_from(["a", "ab", "AB", "loss", "b l", "ü", "Ü", "漢", "xa", "aa", "zzz"]).map(
    Pattern
) | st.sampled_from(["a+b", "^a", "b$", "[üx]", "l.s", "(?i)AB", "(a)(b)", r"a.?b", "loss|漢"]).map(
    lambda text: Pattern(text, regular_expression=True)
)
patched = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def tiny_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "BLOCK", 8)
    monkeypatch.setattr(log_search, "SLICE", 32)
    monkeypatch.setattr(log_search, "OVERLAP", 16)


def reference(data: bytes, pattern: Pattern) -> list[int]:
    """Find the matching lines by reading all lines."""
    flags = re.IGNORECASE if pattern.ignore_case else 0
    expression = pattern.text if pattern.regular_expression else re.escape(pattern.text)
    found = []
    for start, end in pairwise([*starts_of(data), len(data)]):
        line = data[start:end].removesuffix(b"\n").decode("utf-8", "surrogateescape")
        if re.search(expression, re.sub(r"\x1b\[[0-9;:]*m", "", line), flags):
            found.append(start)
    return found


def result_of(search: Iterator[int | None]) -> int | None:
    return next((offset for offset in search if offset is not None), None)


def without_long_lines(data: bytes) -> bool:
    """Excluded: colors and anchors at the edges of the pieces of a very long line."""
    return all(len(line) < 30 for line in data.split(b"\n"))


@pytest.mark.usefixtures("tiny_slices")
class TestSearch:
    @patched
    @given(data=logs.filter(without_long_lines), pattern=patterns, counted=st.integers(0, 20))
    def test_search_finds_and_counts_all_matches(
        self, tmp_path: Path, data: bytes, pattern: Pattern, counted: int
    ) -> None:
        expected = reference(data, pattern)
        with on_log(tmp_path / "log", data) as log:
            search = Search(log, pattern)
            for _ in range(counted):
                search.count()
            for start in [*starts_of(data), len(data)]:
                assert result_of(search.forward(start)) == next((it for it in expected if it >= start), None)
                assert result_of(search.backward(start)) == next((it for it in reversed(expected) if it < start), None)
            while not search.count():
                pass
            assert search.complete
            assert search.matches == len(expected)
            assert [search.ordinal(start) for start in expected] == list(range(1, len(expected) + 1))

    @patched
    @given(first=logs, second=logs, text=st.sampled_from(["a", "loss", "ü"]))
    def test_search_continues_when_the_log_grows(self, tmp_path: Path, first: bytes, second: bytes, text: str) -> None:
        with on_log(tmp_path / "log", first) as log:
            search = Search(log, Pattern(text))
            while not search.count():
                pass
            with (tmp_path / "log").open("ab") as file:
                file.write(second)
            log.poll()
            while not search.count():
                pass
            fresh = Search(log, Pattern(text))
            while not fresh.count():
                pass
            assert search.matches == fresh.matches

    @pytest.mark.parametrize("position", [0, 25, 45, 200, 480])
    def test_long_line_counts_once(self, tmp_path: Path, position: int) -> None:
        long = bytearray(b"." * 500)
        long[position : position + 6] = b"needle"
        data = b"before\n" + bytes(long) + b" needle\nneedle\nafter\n"
        with on_log(tmp_path / "log", data) as log:
            search = Search(log, Pattern("needle"))
            while not search.count():
                pass
            assert search.matches == 2
            assert result_of(search.forward(0)) == 7
            assert result_of(search.backward(len(data) - 13)) == 7
            assert result_of(Search(log, Pattern("needle")).backward(7)) is None

    def test_search_can_be_stopped(self, tmp_path: Path) -> None:
        with on_log(tmp_path / "log", b"nothing here\n" * 100 + b"needle\n") as log:
            steps = list(Search(log, Pattern("needle")).forward(0))
            assert steps[:-1] == [None] * (len(steps) - 1)
            assert len(steps) > 20
            assert steps[-1] == 1300


class TestPattern:
    @pytest.mark.parametrize(
        ("text", "line", "found"),
        [
            ("loss", b"LOSS", 1),
            ("Loss", b"loss", 0),
            ("ärger", "ÄRGER".encode(), 1),
            ("Ärger", "ärger".encode(), 0),
            ("漢", "漢字".encode(), 1),
            ("a.b", b"axb", 0),
            ("[", b"a[b", 1),
            ("red", b"\x1b[31mr\x1b[32med", 1),
            ("[31m", b"\x1b[31mred", 0),
        ],
    )
    def test_plain_text_pattern(self, text: str, line: bytes, found: int) -> None:
        assert Pattern(text).count(line) == found

    @pytest.mark.parametrize(
        ("text", "line", "found"),
        [
            ("l.ss", b"LOSS", 1),
            (r"\D+ss", b"LOSS", 1),
            ("L.ss", b"loss", 0),
            ("^a$", b"b\na\nba\n", 1),
            ("[äö]", "Ö".encode(), 1),
            ("^a.c$", "aüc".encode(), 1),
            (r"^\pL+$", "äöü".encode(), 1),
            ("a.c", b"a\xffc", 1),
            (r"\x{e4}", "ä".encode(), 1),
            ("(?i)LOSS", b"loss", 1),
        ],
    )
    def test_regular_expression_pattern(self, text: str, line: bytes, found: int) -> None:
        assert Pattern(text, regular_expression=True).count(line) == found

    @pytest.mark.parametrize("text", ["(", "[a", "*", "a{1001}", r"a(?=b)", r"(a)\1", "x*", "a|"])
    def test_invalid_expression_is_reported(self, text: str) -> None:
        with pytest.raises(UsageError) as caught:
            Pattern(text, regular_expression=True)
        assert caught.value.remedy

    @pytest.mark.parametrize("text", ["(a+)+$", "(a|aa)+$", "(a*)*c", "([a-z]+)*!", "(.*)*1(.*)*2"])
    def test_expression_takes_linear_time(self, text: str) -> None:
        """With Python's own matcher, each of these would take years."""
        pattern = Pattern(text, regular_expression=True)
        line = b"a" * 60_000 + b"B"
        assert (pattern.count(line), pattern.first(line), pattern.last(line), pattern.spans(line.decode())) == (
            0,
            -1,
            -1,
            [],
        )

    def test_many_matches_in_a_line_take_linear_time(self) -> None:
        assert len(Pattern("ä", regular_expression=True).spans("ä-\udc80" * 20_000)) == 20_000

    def test_matches_in_a_line(self) -> None:
        assert Pattern("ab").spans("xABab") == [(1, 3), (3, 5)]
        assert Pattern("b+|c*", regular_expression=False).spans("b+|c*") == [(0, 5)]
        assert Pattern("b+", regular_expression=True).spans("abba") == [(1, 3)]
        assert Pattern("ö.|-", regular_expression=True).spans("ä-öü\udc80ö😀x") == [(1, 2), (2, 4), (5, 7)]

    @pytest.mark.parametrize("text", ["accuracy", "Epoch 3", "9", "zzz"])
    def test_counts_like_grep(self, tmp_path: Path, text: str) -> None:
        log = tmp_path / "log"
        log.write_text("".join(f"Epoch {i} accuracy 0.{i * 7919 % 1000} accuracy\n" for i in range(20_000)))
        grep = subprocess.run(["grep", "-c", text, str(log)], capture_output=True, text=True, check=False)
        with on_log(log, log.read_bytes()) as opened:
            search = Search(opened, Pattern(text))
            while not search.count():
                pass
            assert search.matches == int(grep.stdout)
