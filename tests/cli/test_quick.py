"""The quick way of reading a command line gives what `argparse` gives, or leaves it to `argparse`."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui_workbench.cli import COMMANDS, Command, build_parser, configure, find_command
from tui_workbench.cli.quick import NotPlain, QuickParser
from tui_workbench.errors import UsageError

VALUES = (
    "x", "1", "0.5", "json", "table", "local", "", " ", "a b", "-1", "-", "--", "-x", "--unknown", "=", "--query=[0]",
    "-cx", "-fx", "train.py", "\u4f60", "--help", "-h", "--out", "--tail=3", "remote", "docker",
)  # fmt: skip


def words_of(command: Command) -> st.SearchStrategy[list[str]]:
    """Lines for this command: its options and all kinds of words, in any order."""
    options = sorted(build_parser(command)._option_string_actions)
    return st.lists(st.sampled_from([*options, *VALUES]), max_size=8)


def by_argparse(command: Command, words: list[str]) -> dict[str, Any] | None:
    """What `argparse` says; None when it says that it is wrong, or help."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            return vars(build_parser(command).parse(words))
        except (UsageError, SystemExit):
            return None


def quickly(command: Command, words: list[str]) -> dict[str, Any] | None:
    """What the quick way says; None when it leaves it."""
    parser = QuickParser()
    try:
        configure(command, parser)
        return vars(parser.parse(words))
    except NotPlain:
        return None


def command_of(*words: str) -> Command:
    command, rest = find_command(words)
    assert command is not None
    assert not rest
    return command


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command.words))
@settings(max_examples=60)
@given(data=st.data())
def test_what_it_says_is_what_argparse_says(command: Command, data: st.DataObject) -> None:
    words = data.draw(words_of(command))
    said = quickly(command, words)
    assert said is None or said == by_argparse(command, words), words


PLAIN = {
    ("experiment", "submit"): [
        ["-c", "local", "train.py"],
        ["-c", "local", "--wait", "train.py", "--epochs", "3", "-c", "--", "--help"],
        ["--run-configuration", "local", "--detach", "-o", "json", "--query", "run_id", "train.py"],
        ["-c", "local", "-t", "box", "--dry-run"],
    ],
    ("experiment", "cancel"): [["--run", "7"], ["-r", "7", "--grace", "0.5"]],
    ("experiment", "status"): [["--run", "7", "--query", "status"]],
    ("logs",): [["7"], ["-f", "7"], ["7", "--follow", "--tail", "20"]],
    ("history", "list"): [[], ["-o", "table"], ["--project", "/p", "--query", "[0]"]],
    ("history", "info"): [["-r", "7"]],
    ("computetarget", "list"): [[], ["-o", "tsv"]],
    ("project", "create"): [["name"], ["--name", "name", "--template", "blank"]],
    ("config", "set"): [["file", "key", "value"]],
}


@pytest.mark.parametrize("words", PLAIN, ids=" ".join)
def test_what_people_type_is_plain(words: tuple[str, ...]) -> None:
    command = command_of(*words)
    for line in PLAIN[words]:
        assert quickly(command, line) == by_argparse(command, line) is not None


@pytest.mark.parametrize(
    "line",
    [
        ["-h"], ["--help"], ["-c"], ["-c", "local", "--unknown", "x"], ["-clocal", "x"],
        ["--target=box", "-c", "local"],
        ["-c", "local", "-o", "xml", "x"], ["x"], ["-c", "--wait", "x"], ["-c", "local", "--", "x"],
    ],
)  # fmt: skip
def test_what_is_not_plain_is_left(line: list[str]) -> None:
    assert quickly(command_of("experiment", "submit"), line) is None


def test_the_quick_way_does_not_load_argparse() -> None:
    script = "import sys\nfrom tui_workbench.cli import parse, find_command\nparse(*find_command(['logs', '1']))\n"
    script += "sys.exit('argparse' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
