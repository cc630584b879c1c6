from __future__ import annotations

import pytest

from tui_workbench.core.plaintext import counted


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
