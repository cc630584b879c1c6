"""Every command has help that fits the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Installed, arguments_help
from tui_workbench import __version__
from tui_workbench.cli import COMMANDS

WIDEST = 124
"""Maximum columns of help; epilogs and usages are not wrapped."""

WITHOUT_PROJECT = frozenset({"agent", "agent-guide", "notify", "project", "keys", "theme", "port"})
"""The nouns whose commands need no existing project. Of the others, only `computetarget cloud-init` needs none."""

NOUNS = sorted({command.words[0] for command in COMMANDS if len(command.words) > 1})


@pytest.fixture
def nowhere(tmp_path: Path) -> Installed:
    """Return the command outside a project."""
    return Installed(tmp_path)


def names(words: tuple[str, ...]) -> str:
    return " ".join(words)


@pytest.mark.parametrize("words", [command.words for command in COMMANDS], ids=names)
def test_each_command_has_help(words: tuple[str, ...], nowhere: Installed) -> None:
    result = nowhere.run(*words, "--help")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"usage: workbench-tui {names(words)}")
    assert "--project" in result.out or words[0] in WITHOUT_PROJECT or words[-1] == "cloud-init"
    assert max(map(len, result.out.splitlines())) <= WIDEST


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: names(command.words))
def test_each_option_has_help(command: object) -> None:
    from tui_workbench.cli import Command

    assert isinstance(command, Command)
    assert not [name for name, text in arguments_help(command).items() if not text]


def test_help_fits_a_narrow_terminal(nowhere: Installed) -> None:
    with nowhere.in_terminal("history", "list", "--help", columns=60) as terminal:
        assert terminal.to_the_end() == 0
    assert max(map(len, terminal.raw.decode().splitlines())) <= 60


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_overview_names_every_command(nowhere: Installed, option: str) -> None:
    out = nowhere.run(option).out
    assert out.startswith("usage: workbench-tui [PROJECT]")
    for command in COMMANDS:
        assert f"  {names(command.words)} " in out
        assert command.help in out
    for code in ("130", "1 for", "2 for", "3 for", "4 if"):
        assert code in out


@pytest.mark.parametrize("noun", NOUNS)
def test_noun_alone_lists_its_commands(nowhere: Installed, noun: str) -> None:
    asked, alone = nowhere.run(noun, "--help"), nowhere.run(noun)
    assert (asked.code, alone.code) == (0, 2)
    assert asked.out == alone.out
    assert {line.split()[0] for line in asked.out.splitlines()} == {noun}


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_version_is_printed(nowhere: Installed, option: str) -> None:
    assert nowhere.run(option).out == f"workbench-tui {__version__}\n"


def test_help_lines_have_one_style() -> None:
    for command in COMMANDS:
        assert command.help[0].islower() or command.help.startswith("JSON"), command
        assert not command.help.endswith("."), command


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("experment", "submit", "-c", "local", "train.py"), "experiment submit"),
        (("experment",), "experiment"),
        (("experiment", "sumbit", "train.py"), "experiment submit"),
        (("histroy", "list", "-o", "table"), "history list"),
        (("--ascii", "stauts"), "status"),
        (("project", "smaple", "list"), "project sample list"),
        (("logz", "5"), "logs"),
    ],
)
def test_mistyped_command_is_suggested(nowhere: Installed, typed: tuple[str, ...], meant: str) -> None:
    result = nowhere.run(*typed)
    assert result.code == 2
    assert result.err.endswith(f"Did you mean `workbench-tui {meant}`?\n")
    assert "expected one project" not in result.err
