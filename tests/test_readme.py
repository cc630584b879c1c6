"""The README begins with the name, a picture and two commands, and its links exist."""

from __future__ import annotations

import re

from tests.conftest import REPOSITORY

TEXT = (REPOSITORY / "README.md").read_text(encoding="utf-8")
LINES = TEXT.splitlines()

LONGEST = 120


def test_readme_begins_with_name_sentence_and_picture() -> None:
    assert LINES[0] == "# workbench-tui"
    assert LINES[2]
    assert TEXT.index("docs/pictures/main.svg") < TEXT.index("make run") < TEXT.index("## ")


def test_two_commands_come_before_the_quick_start() -> None:
    commands = [line.split()[:2] for line in LINES if line.startswith("make ")]
    assert commands == [["make", "run"], ["make", "test"]]


def test_readme_is_short() -> None:
    assert len(LINES) <= LONGEST


def test_links_of_the_readme_exist() -> None:
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", TEXT) if "://" not in link]
    assert links
    assert not [link for link in links if not (REPOSITORY / link).is_file()]
