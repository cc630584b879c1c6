from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tui_workbench.ui.editor.difference_view import MOST_COMPARED_LINES, compare

TEXTS = st.lists(st.sampled_from("abc"), max_size=12).map("\n".join)


@given(TEXTS, TEXTS)
def test_difference_transforms_the_old_into_the_new_text(old: str, new: str) -> None:
    before, after = old.split("\n"), new.split("\n")
    removed, added, same = set(), set(), set()
    for kind, text, number in compare(old, new):
        if kind == "-":
            assert before[number - 1] == text
            removed.add(number)
        elif kind == "+":
            assert after[number - 1] == text
            added.add(number)
        elif kind == " ":
            assert after[number - 1] == text
            same.add(number)
    kept = [text for number, text in enumerate(before, 1) if number not in removed]
    assert kept == [text for number, text in enumerate(after, 1) if number not in added]
    assert not added & same


def test_lines_are_shown_once_and_gaps_are_marked() -> None:
    before = [str(number) for number in range(20)]
    after = before.copy()
    after[5], after[15] = "five", "fifteen"
    shown = compare("\n".join(before), "\n".join(after))
    assert "".join(line.kind for line in shown) == "@   -+   @   -+   "
    assert [line.text for line in shown if line.kind in "+-"] == ["5", "five", "15", "fifteen"]


def test_equal_texts_have_no_difference() -> None:
    assert compare("a\nb", "a\nb") == []


def test_too_long_texts_replace_each_other() -> None:
    old = "\n".join(f"a{number % 7}" for number in range(MOST_COMPARED_LINES * 3))
    new = "\n".join(f"b{number % 5}" for number in range(MOST_COMPARED_LINES * 3))
    kinds = "".join(line.kind for line in compare(old, new))
    assert kinds == "-" * (MOST_COMPARED_LINES * 3) + "+" * (MOST_COMPARED_LINES * 3)
