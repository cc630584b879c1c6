"""A NUL character in a text of a configuration file is an error at its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.documents import document
from tests.faults.support import Workbench
from tui_workbench.core.errors import ConfigurationError


@pytest.mark.parametrize("escape", ["\\0", "\\x00", "\\u0000"])
@pytest.mark.parametrize(
    "line", ['Target: "a{}b"', 'EnvironmentVariables: {{"A{}": "1"}}', 'ArgumentVector: ["{}.py"]']
)
def test_check_names_the_line_of_a_nul_character(project_root: Path, escape: str, line: str) -> None:
    (project_root / "aml_config" / "odd.runconfig").write_text(f"Framework: Python\n{line.format(escape)}\n")
    said = Workbench(project_root).run("config", "check")
    assert said.code == 3
    assert "odd.runconfig:2:" in said.out
    assert "NUL character" in said.out


@pytest.mark.parametrize("text", ["Target: []\n", '{"Target": ["a"]}\n'])
def test_new_item_with_a_nul_character_is_refused(text: str) -> None:
    editing = document(text)
    with pytest.raises(ConfigurationError, match="NUL character"):
        editing.insert_item(("Target",), 0, "a\0b")
    assert editing.text == text
