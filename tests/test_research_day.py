"""The page docs/research-day.md is true: its commands are typed in a shell and print what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.gpu.test_tutorial import Shell

pytestmark = pytest.mark.processes

PAGE = REPOSITORY / "docs" / "research-day.md"
_VARYING = re.compile(r"research_\d+|\d[\d:.-]*T?[\d:.]+\+00:00|0:00:\d\d\.\d+|\d+\.\d s|\d+\.\d [kM]B|\b\d{5,}\b")
_STATE = re.compile(r"\[\d+\].*  (queued|preparing|running|finalizing)")


def steps() -> list[tuple[str, str]]:
    """Return the commands of each block of the page with the output that the page shows."""
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(r"```sh\n(.*?)```\n\n```text\n(.*?)```\n", text, re.DOTALL)


def lines(text: str) -> list[str]:
    """Return the lines without IDs, times, sizes and column widths, and without states that last only a moment."""
    shown = (" ".join(_VARYING.sub("#", line).split()) for line in text.splitlines() if not _STATE.fullmatch(line))
    return [re.sub("-+", "-", line) for line in shown]


def test_commands_of_the_page_print_what_it_shows(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (script,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert text.count("```sh\n") == len(steps())
    folder = tmp_path / "research"
    folder.mkdir()
    (folder / "train.py").write_text(script)
    shell = Shell(folder)
    for commands, shown in steps():
        assert lines(shell.type(commands)) == lines(shown), commands
