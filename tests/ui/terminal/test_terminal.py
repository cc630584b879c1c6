"""The capabilities of a terminal, detected from its environment."""

from __future__ import annotations

import os

import pytest

from tui_workbench.ui.terminal import capabilities
from tui_workbench.ui.terminal.capabilities import Terminal, UnsupportedTerminal, examine


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, Terminal("truecolor", True)),
        ({"TERM": "xterm-256color"}, Terminal("256", True)),
        ({"TERM": "xterm"}, Terminal("16", True)),
        ({"TERM": "xterm-kitty"}, Terminal("truecolor", True)),
        ({"TERM": "alacritty"}, Terminal("truecolor", True)),
        ({"TERM": "xterm-direct"}, Terminal("truecolor", True)),
        ({"TERM": "tmux"}, Terminal("16", True)),
        ({"TERM": "tmux-256color", "COLORTERM": "truecolor", "TMUX": "x"}, Terminal("truecolor", True)),
        ({"TERM": "screen", "TMUX": "x"}, Terminal("16", True)),
        ({"TERM": "screen-256color", "TMUX": "x", "COLORTERM": "24bit"}, Terminal("truecolor", True)),
        ({"TERM": "screen-256color", "STY": "x", "COLORTERM": "truecolor"}, Terminal("256", True)),
        ({"TERM": "screen.xterm-256color", "STY": "x", "COLORTERM": "truecolor"}, Terminal("256", True)),
        ({"TERM": "screen", "COLORTERM": "truecolor"}, Terminal("16", True)),
        ({"TERM": "linux", "LANG": "C.UTF-8"}, Terminal("16", False)),
        ({"TERM": "vt100"}, Terminal("none", False)),
        ({"TERM": "vt220", "COLORTERM": "truecolor"}, Terminal("none", False)),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, Terminal("none", True)),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, Terminal("256", True)),
        ({"TERM": "some-new-256color"}, Terminal("256", True)),
    ],
    ids=lambda value: " ".join(value.values()) if isinstance(value, dict) else "",
)
def test_colors_follow_from_the_environment(environ: dict[str, str], expected: Terminal) -> None:
    assert examine({"LANG": "en_US.UTF-8", **environ}) == expected


@pytest.mark.parametrize(
    ("environ", "unicode"),
    [
        ({}, True),
        ({"LANG": "C"}, False),
        ({"LANG": "POSIX"}, False),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "C"}, False),
        ({"LANG": "C", "LC_ALL": "C.UTF-8"}, True),
        ({"LANG": "C", "LC_ALL": ""}, False),
        ({"LANG": "de_DE"}, True),
        ({"LANG": "de_DE.utf8"}, True),
        ({"LANG": "de_DE.ISO-8859-1"}, False),
        ({"LANG": "en_US.UTF-8", "LC_CTYPE": "de_DE.ISO-8859-15"}, False),
    ],
    ids=lambda value: " ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else "",
)
def test_unicode_follows_from_the_locale(environ: dict[str, str], unicode: bool) -> None:
    assert examine({"TERM": "xterm", **environ}).unicode is unicode


def test_ascii_only_disables_unicode() -> None:
    assert not examine({"TERM": "xterm", "LANG": "C.UTF-8"}, ascii_only=True).unicode


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "TERM is not set"),
        ("dumb", "TERM is 'dumb', a terminal that cannot position the cursor"),
        ("unknown", "cannot position the cursor"),
        ("no-such-terminal", "unknown terminal 'no-such-terminal'"),
        ("vt52", "TERM is 'vt52', a terminal without ANSI escape sequences"),
    ],
)
def test_unsupported_terminal_is_an_error_with_a_remedy(name: str, said: str) -> None:
    with pytest.raises(UnsupportedTerminal) as caught:
        examine({"TERM": name})
    assert said in str(caught.value)
    assert "try `TERM=xterm-256color workbench-tui`" in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("columns", "lines"), [(39, 24), (80, 9)])
def test_small_terminal_is_an_error(columns: int, lines: int) -> None:
    said = f"{columns} columns and {lines} lines; the screens need at least 40 and 10"
    with pytest.raises(UnsupportedTerminal, match=said):
        capabilities.check_size(columns, lines)


@pytest.mark.parametrize(("columns", "lines"), [(40, 10), (0, 0), (200, 60)])
def test_large_or_unknown_size_is_accepted(columns: int, lines: int) -> None:
    capabilities.check_size(columns, lines)


def test_textual_variables_are_removed_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEXTUAL_COLOR_SYSTEM", raising=False)
    with capabilities.textual_environment(Terminal("256")):
        assert os.environ["TEXTUAL_COLOR_SYSTEM"] == "256"
    assert "TEXTUAL_COLOR_SYSTEM" not in os.environ


def test_textual_variables_of_the_user_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXTUAL_COLOR_SYSTEM", "standard")
    with capabilities.textual_environment(Terminal("256")):
        assert os.environ["TEXTUAL_COLOR_SYSTEM"] == "standard"
    assert os.environ["TEXTUAL_COLOR_SYSTEM"] == "standard"
