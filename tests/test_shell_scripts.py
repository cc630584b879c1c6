"""The shell scripts of the package: how they are read, and that shells and shellcheck accept all of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tui_workbench
from tui_workbench.core.shell_scripts import shell_script

PACKAGE = Path(tui_workbench.__file__).parent
SCRIPTS = sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.sh") if "templates_data" not in path.parts)


def test_comments_are_removed(tmp_path: Path) -> None:
    (tmp_path / "one.sh").write_text(
        "# $1: a file\n#\n  # Not the link.\n#SBATCH --gpus=1\nx=${1#./} # rest\n\n#!/bin/sh\n"
    )
    assert shell_script(str(tmp_path / "one.sh")) == "#SBATCH --gpus=1\nx=${1#./} # rest\n\n#!/bin/sh\n"


def test_sourced_files_are_included(tmp_path: Path) -> None:
    (tmp_path / "hosts").mkdir()
    (tmp_path / "slurm").mkdir()
    (tmp_path / "hosts" / "one.sh").write_text("# Defines `one`.\none() { echo 1; }\n")
    (tmp_path / "hosts" / "two.sh").write_text(". ./one.sh\ntwo() { one; one; }\n")
    (tmp_path / "slurm" / "three.sh").write_text("if true; then\n    . ../hosts/two.sh\nfi\ntwo\n. ./ one.sh\n")
    text = shell_script(str(tmp_path / "slurm" / "three.sh"))
    assert text == "if true; then\none() { echo 1; }\ntwo() { one; one; }\nfi\ntwo\n. ./ one.sh\n"


@pytest.mark.parametrize("path", SCRIPTS)
def test_script_is_complete_and_has_no_syntax_error(path: str) -> None:
    text = shell_script(path)
    subprocess.run(["sh", "-n"], input=text, text=True, check=True)
    assert text.endswith("\n")
    assert not re.search(r"^\s*(\.|source) ", text, re.MULTILINE), "machines do not have the sourced file"
    assert "<<" not in text, "lines of a here-document could be removed as comments"


def test_every_script_is_used() -> None:
    modules = "".join(path.read_text() for path in PACKAGE.rglob("*.py") if "templates_data" not in path.parts)
    read = set(re.findall(r'shell_script\("([^"]+)"\)', modules))
    sourced = {
        str((PACKAGE / path).parent.joinpath(name).resolve().relative_to(PACKAGE.resolve()))
        for path in SCRIPTS
        for name in re.findall(r"^\s*\. (\S+)$", (PACKAGE / path).read_text(), re.MULTILINE)
    }
    assert read | sourced == set(SCRIPTS)


SHELLCHECK = Path(sys.executable).with_name("shellcheck")


@pytest.mark.skipif(not SHELLCHECK.exists(), reason="shellcheck is not installed; `make check` installs and runs it")
def test_shellcheck_finds_nothing() -> None:
    done = subprocess.run([SHELLCHECK, *SCRIPTS], cwd=PACKAGE, capture_output=True, text=True, check=False)
    assert done.stdout == ""
