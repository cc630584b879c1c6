"""Notifications and titles for each kind of terminal."""

from __future__ import annotations

import pytest

from tui_workbench.ui.terminal.terminal_sequences import (
    SCREEN_CHUNK,
    notification,
    through_screen,
    through_tmux,
    title_sequence,
    understands,
)

BARE = {"TERM": "xterm-256color"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (BARE, "\x1b]9;project: done\x1b\\"),
        ({"TERM": "rxvt-unicode"}, "\x1b]777;notify;project;done\x1b\\"),
        ({**BARE, "VTE_VERSION": "7600"}, "\x1b]777;notify;project;done\x1b\\"),
        ({"TERM": "tmux-256color", "TMUX": "/x,1,0"}, "\x1bPtmux;\x1b\x1b]9;project: done\x1b\x1b\\\x1b\\"),
        ({"TERM": "screen", "STY": "1.x"}, "\x1bP\x1b]9;project: done\x07\x1b\\"),
        ({"TERM": "linux"}, ""),
        ({}, ""),
        ({**BARE, "TEXTUAL_DRIVER": "web"}, ""),
    ],
    ids=["xterm", "rxvt", "vte", "tmux", "screen", "console", "none", "browser"],
)
def test_notification_suits_the_terminal(environment: dict[str, str], expected: str) -> None:
    assert notification("project", "done", environment) == expected


def test_settings_choose_the_form() -> None:
    assert notification("p", "x", BARE, "osc777").startswith("\x1b]777;")
    assert notification("p", "x", {"TERM": "rxvt"}, "osc9").startswith("\x1b]9;")


@pytest.mark.parametrize("text", ["\x1b\\\x1b]0;stolen\x07", "\x9c\x9d0;stolen\x9c", "a\nb\tc", "x" * 1000])
def test_text_cannot_end_the_sequence(text: str) -> None:
    for said in (notification(text, text, BARE), notification(text, text, BARE, "osc777"), title_sequence(text, BARE)):
        inner = said.removeprefix("\x1b]").removesuffix("\x1b\\")
        assert not any(ord(character) < 32 or 0x7F <= ord(character) < 0xA0 for character in inner)
        assert len(said) < 500


def test_text_cannot_end_a_field() -> None:
    assert notification("a;b", "c;d", BARE, "osc777") == "\x1b]777;notify;a,b;c,d\x1b\\"


def test_title_is_not_wrapped_for_tmux() -> None:
    assert title_sequence("x", {"TERM": "tmux-256color", "TMUX": "/x,1,0"}) == "\x1b]2;x\x1b\\"


@pytest.mark.parametrize("name", ["linux", "vt100", "dumb", ""])
def test_console_gets_nothing(name: str) -> None:
    assert not understands({"TERM": name})


def test_tmux_gets_doubled_escapes() -> None:
    assert through_tmux("\x1b]2;title\x1b\\") == "\x1bPtmux;\x1b\x1b]2;title\x1b\x1b\\\x1b\\"


def test_screen_gets_short_strings() -> None:
    sequence = "\x1b]9;" + "é" * 300 + "\x1b\\"
    pieces = through_screen(sequence).split("\x1b\\")[:-1]
    assert all(piece.startswith("\x1bP") for piece in pieces)
    assert max(len(piece.encode()) for piece in pieces) <= SCREEN_CHUNK + 2
    assert "".join(piece.removeprefix("\x1bP") for piece in pieces) == "\x1b]9;" + "é" * 300 + "\x07"
