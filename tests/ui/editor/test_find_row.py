from __future__ import annotations

import pytest

from tui_workbench.ui.editor.find_row import MOST_MATCHES, find_all, line_number


def test_capital_letter_makes_the_search_case_sensitive() -> None:
    lines = ["Epoch epoch", "", "an EPOCH"]
    assert find_all(lines, "epoch") == [(0, 0, 5), (0, 6, 11), (2, 3, 8)]
    assert find_all(lines, "Epoch") == [(0, 0, 5)]


def test_pattern_is_searched_literally() -> None:
    assert find_all(["a.b (axb"], "a.b (") == [(0, 0, 5)]


def test_empty_pattern_matches_nothing_and_matches_are_limited() -> None:
    assert find_all(["abc"], "") == []
    assert len(find_all(["aaaa"] * MOST_MATCHES, "a")) == MOST_MATCHES


@pytest.mark.parametrize(
    ("wanted", "line"), [(":12", 12), (": 3", 3), (":", 0), (":x", 0), ("12", 0), (":" + "9" * 30, 0), (":²", 0)]
)
def test_colon_and_number_is_a_line(wanted: str, line: int) -> None:
    assert line_number(wanted) == line
