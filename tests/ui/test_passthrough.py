"""What is meant for the terminal gets there through tmux and GNU screen as a whole."""

from __future__ import annotations

from tui_workbench.ui.passthrough import SCREEN_CHUNK, through_screen, through_tmux


def test_tmux_takes_it_in_one_string_with_its_escapes_doubled() -> None:
    assert through_tmux("\x1b]2;title\x1b\\") == "\x1bPtmux;\x1b\x1b]2;title\x1b\x1b\\\x1b\\"


def test_screen_takes_it_in_strings_that_it_does_not_cut() -> None:
    sequence = "\x1b]9;" + "é" * 300 + "\x1b\\"
    pieces = through_screen(sequence).split("\x1b\\")[:-1]
    assert all(piece.startswith("\x1bP") for piece in pieces)
    assert max(len(piece.encode()) for piece in pieces) <= SCREEN_CHUNK + 2
    assert "".join(piece.removeprefix("\x1bP") for piece in pieces) == "\x1b]9;" + "é" * 300 + "\x07"
