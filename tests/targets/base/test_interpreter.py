"""The version of an interpreter."""

from __future__ import annotations

import os
import platform
import sys
from typing import TYPE_CHECKING

import pytest

from tui_workbench.core.errors import ConfigurationError
from tui_workbench.targets.base.interpreter import python_version

if TYPE_CHECKING:
    from pathlib import Path


def program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_version_of_an_interpreter() -> None:
    assert python_version(sys.executable) == platform.python_version().rstrip("+")


def test_version_is_cached_until_the_file_changes(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    python = program(tmp_path / "python", f"echo x >> {asked}\necho 3.9.1")
    assert python_version(python) == python_version(python) == "3.9.1"
    assert asked.read_text() == "x\n"
    program(tmp_path / "python", "echo 3.12.0")
    os.utime(python, (1, 1))
    assert python_version(python) == "3.12.0"


@pytest.mark.parametrize("text", ["echo hello", "exit 3", "echo", "kill -9 $$"])
def test_other_programs_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be used as a Python interpreter.*pythonLocation"):
        python_version(program(tmp_path / "python", text))


def test_missing_interpreter_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere cannot be used.*No such file"):
        python_version(str(tmp_path / "nowhere"))


def test_python_variables_of_the_user_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('hello from the site')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert python_version(sys.executable)[0].isdigit()
