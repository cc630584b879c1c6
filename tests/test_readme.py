"""The README says what is true: its first lines are the two commands, and it names every command there is."""

from __future__ import annotations

from tests.conftest import REPOSITORY
from tui_workbench.cli import COMMANDS

TEXT = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_the_first_lines_are_the_two_commands() -> None:
    first, second = TEXT.splitlines()[:2]
    assert first.split()[:2] == ["make", "run"]
    assert second.split()[:2] == ["make", "test"]


def test_every_command_is_named() -> None:
    assert not [" ".join(command.words) for command in COMMANDS if f"`{' '.join(command.words)}" not in TEXT]


def test_every_file_that_it_links_to_is_there() -> None:
    links = [part.partition(")")[0] for part in TEXT.split("](")[1:]]
    assert links
    files = [link.partition("#")[0] for link in links if "://" not in link]
    assert not [file for file in files if not (REPOSITORY / file).is_file()]
