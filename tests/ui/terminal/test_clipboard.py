"""Copying to the clipboard of each kind of terminal."""

from __future__ import annotations

import base64
import os
import re
import stat
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_workbench.ui.terminal import clipboard

if TYPE_CHECKING:
    from pathlib import Path

BARE = "\x1b]52;c;bmVlZGxl\x07"


def of_screen(data: str) -> str:
    """Return the text that GNU screen passes on."""
    pieces = re.findall("\x1bP(.*?)\x1b\\\\", data, re.DOTALL)
    assert all(len(piece) <= 256 for piece in pieces)
    return "".join(pieces)


def test_terminal_gets_a_bare_sequence() -> None:
    assert clipboard.sequences("needle", {"TERM": "xterm-256color"}) == BARE


def test_remote_tmux_gets_both_forms() -> None:
    sequences = clipboard.sequences("needle", {"TERM": "tmux-256color"})
    assert sequences == BARE + "\x1bPtmux;" + BARE.replace("\x1b", "\x1b\x1b") + "\x1b\\"


@given(st.text())
def test_gnu_screen_gets_pieces(text: str) -> None:
    bare = clipboard.sequences(text, {"TERM": "xterm"})
    assert of_screen(clipboard.sequences(text, {"TERM": "screen.xterm-256color", "STY": "1.pts-0.host"})) == bare
    encoded = bare.removeprefix("\x1b]52;c;").removesuffix("\x07")
    assert base64.b64decode(encoded).decode() == text


def test_ambiguous_term_gets_both_forms() -> None:
    sequences = clipboard.sequences("needle", {"TERM": "screen-256color"})
    assert sequences.startswith(BARE)
    assert of_screen(sequences.removeprefix(BARE)) == BARE


@pytest.mark.parametrize(
    ("text", "environ", "said"),
    [
        ("short", {"TERM": "xterm"}, ""),
        ("short", {"TERM": "linux"}, "This terminal has no clipboard"),
        ("short", {"TERM": "vt220"}, "This terminal has no clipboard"),
        ("short", {"TERM": "vte-256color"}, ""),
        ("x" * clipboard.MAX_BYTES, {"TERM": "xterm"}, ""),
        ("ü" * (clipboard.MAX_BYTES // 2 + 1), {"TERM": "xterm"}, "The text is too long for a terminal clipboard"),
    ],
    ids=["short", "linux", "vt220", "vte", "longest", "too-long"],
)
def test_reasons_why_a_text_cannot_be_copied(text: str, environ: dict[str, str], said: str) -> None:
    assert clipboard.why_not(text, environ) == said


VTE = {"TERM": "xterm-256color", "VTE_VERSION": "7006", "PATH": "/nowhere"}


def test_terminal_without_osc52_is_detected_locally() -> None:
    assert "does not allow copying" in clipboard.why_not("short", VTE)
    assert clipboard.why_not("short", {**VTE, "SSH_CONNECTION": "a 1 b 22"}) == ""
    assert clipboard.why_not("short", {**VTE, "TMUX": "x"}) == ""


@pytest.mark.parametrize(
    ("environ", "installed", "expected"),
    [
        ({"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}, ["wl-copy", "xclip"], ("wl-copy",)),
        ({"DISPLAY": ":0"}, ["wl-copy", "xclip", "xsel"], ("xclip", "-selection", "clipboard")),
        ({"DISPLAY": ":0"}, ["xsel"], ("xsel", "--input", "--clipboard")),
        ({"TERM_PROGRAM": "Apple_Terminal"}, ["pbcopy"], ("pbcopy",)),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "a 1 b 22"}, ["xclip"], ()),
        ({}, ["xclip"], ()),
    ],
    ids=["wayland", "x11", "xsel", "macos", "over-ssh", "no-desktop"],
)
def test_desktop_program_replaces_osc52(
    tmp_path: Path, environ: dict[str, str], installed: list[str], expected: tuple[str, ...]
) -> None:
    for name in installed:
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    assert clipboard.desktop_command({**VTE, "PATH": str(tmp_path), **environ}) == expected


def test_no_desktop_program_where_osc52_works() -> None:
    assert clipboard.desktop_command({"TERM": "xterm-256color", "DISPLAY": ":0", "PATH": os.environ["PATH"]}) == ()


def test_longest_text_stays_below_the_limit() -> None:
    assert len(clipboard.sequences("x" * clipboard.MAX_BYTES, {"TERM": "xterm"})) <= 100_000


def test_saved_text_is_private(home: Path) -> None:
    path = clipboard.save("one")
    assert clipboard.save("two\udcff") == path
    assert path == str(home / ".local/state/workbench-tui/copied.txt")
    with open(path, "rb") as file:
        assert file.read() == b"two\xff"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
