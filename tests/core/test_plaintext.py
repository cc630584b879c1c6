from __future__ import annotations

from collections.abc import Iterable

import pytest

from tui_workbench.core.plaintext import counted, number_ranges


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "file", "0 files"),
        (1, "run", "1 run"),
        (12031, "line", "12,031 lines"),
        (1, "process", "1 process"),
        (2, "process", "2 processes"),
    ],
)
def test_counts_have_their_plural(number: int, noun: str, text: str) -> None:
    assert counted(number, noun) == text


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([4], "4"), ([3, 2, 1, 5], "1-3, 5"), ({0, 1, 7, 8}, "0-1, 7-8"), ([1, 3], "1, 3")]
)
def test_numbers_in_sequence_form_a_range(numbers: Iterable[int], text: str) -> None:
    assert number_ranges(numbers) == text
