from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui_workbench.ui.terminal.safetext import is_safe
from tui_workbench.ui.widgets.line_buffer import LineBuffer


def typed(buffer: LineBuffer, *keys: str) -> LineBuffer:
    for key in keys:
        assert buffer.press(key, key if len(key) == 1 else None), key
    return buffer


def test_first_letter_replaces_a_fresh_value() -> None:
    assert typed(LineBuffer("old"), *"new").text == "new"
    assert typed(LineBuffer("old"), "end", "x").text == "oldx"
    assert typed(LineBuffer("old"), "left", "x").text == "xold"
    assert typed(LineBuffer("old"), "backspace").text == ""


@pytest.mark.parametrize(
    ("keys", "text", "cursor"),
    [
        (("end", "backspace"), "one tw", 6),
        (("home", "delete"), "ne two", 0),
        (("end", "ctrl+left", "x"), "one xtwo", 5),
        (("home", "ctrl+right", "x"), "onex two", 4),
        (("end", "ctrl+backspace"), "one ", 4),
        (("end", "left", "ctrl+u"), "o", 0),
        (("home", "right", "ctrl+k"), "o", 1),
        (("ctrl+a", "left"), "one two", 0),
        (("ctrl+e", "right"), "one two", 7),
    ],
)
def test_keys_edit_the_line(keys: tuple[str, ...], text: str, cursor: int) -> None:
    buffer = typed(LineBuffer("one two"), *keys)
    assert (buffer.text, buffer.cursor) == (text, cursor)


def test_other_keys_are_not_handled() -> None:
    buffer = LineBuffer("a")
    assert not buffer.press("ctrl+s", None)
    assert not buffer.press("pagedown", None)
    assert buffer.is_fresh


def test_pasted_line_ends_become_spaces() -> None:
    buffer = LineBuffer()
    buffer.insert("a\r\nb\nc")
    assert buffer.text == "a b c"


@given(st.text(st.sampled_from("ab 中é\x1b\u202e"), max_size=40), st.integers(0, 40), st.integers(4, 30))
def test_window_contains_the_cursor_fits_and_is_safe(text: str, cursor: int, width: int) -> None:
    buffer = LineBuffer(text)
    buffer.cursor = min(cursor, len(text))
    window = buffer.window(width)
    shown = window.before + window.under + window.after
    assert cell_len(shown) <= width
    assert window.under
    assert is_safe("a" + shown)


def test_click_moves_the_cursor() -> None:
    buffer = LineBuffer("中ab")
    for cell, cursor in ((0, 0), (1, 0), (2, 1), (3, 2), (9, 3)):
        buffer.go_to_cell(cell, 20)
        assert buffer.cursor == cursor
