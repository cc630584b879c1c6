"""Steps between texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tui_workbench.config.history import MAX_STEPS, History, Step, difference

TEXT = st.text("ab\n", max_size=20)


@given(old=TEXT, new=TEXT)
def test_a_difference_leads_from_one_text_to_the_other_and_back(old: str, new: str) -> None:
    step = difference(old, new, "x")
    assert step.apply(old) == new
    assert step.inverse.apply(new) == old
    assert (step.before, step.after) != ("", "") or old == new


def test_a_difference_is_as_short_as_can_be() -> None:
    assert difference("abcdef", "abXdef", "") == Step(2, "c", "X", "")
    assert difference("aa", "aaa", "") == Step(2, "", "a", "")
    assert difference("same", "same", "") == Step(4, "", "", "")


def test_what_was_undone_is_forgotten_when_something_new_is_done() -> None:
    history = History()
    history.add(difference("", "a", "one"))
    history.undo()
    assert history.redo_label == "one"
    history.add(difference("", "b", "two"))
    assert history.redo() is None
    assert history.undo_label == "two"


def test_erasing_in_a_row_is_one_step_and_saving_ends_it() -> None:
    history = History()
    history.add(difference("abc", "ab", "erase", "typing"))
    history.add(difference("ab", "a", "erase", "typing"))
    assert history.undo() == Step(1, "", "bc", "erase", "typing")
    history = History()
    history.add(difference("", "a", "type", "typing"))
    history.seal()
    history.add(difference("a", "ab", "type", "typing"))
    assert history.undo() == Step(1, "b", "", "type", "typing")


def test_the_oldest_steps_go_when_there_are_too_many() -> None:
    history = History()
    for number in range(MAX_STEPS + 10):
        history.add(Step(number, "", "x", str(number)))
    undone = 0
    while history.undo() is not None:
        undone += 1
    assert undone == MAX_STEPS
