"""The shell scripts of the package: how they are read, and that shells accept all of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import tui_workbench
from tui_workbench.core.shell_scripts import shell_script

PACKAGE = Path(tui_workbench.__file__).parent


def scripts(suffix: str) -> list[str]:
    """Return the paths of the scripts of the package with this suffix."""
    found = (path for path in PACKAGE.rglob(f"*.{suffix}") if "templates_data" not in path.parts)
    return sorted(str(path.relative_to(PACKAGE)) for path in found)


SCRIPTS = scripts("sh")
OTHERS = scripts("bash") + scripts("zsh")
SHELLS = (("sh",), ("bash", "--posix"), ("busybox", "sh"))
SOURCED = re.compile(r"^\s*\. (\.\S+)$", re.MULTILINE)


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
def test_script_has_no_syntax_error(path: str) -> None:
    text = shell_script(path)
    for shell in SHELLS:
        if shutil.which(shell[0]):
            subprocess.run([*shell, "-n"], input=text, text=True, check=True)
    assert text.endswith("\n")
    assert not re.search(r"^\s*(\.|source) \.", text, re.MULTILINE), "machines do not have the sourced file"


@pytest.mark.parametrize("path", SCRIPTS)
def test_only_comments_are_removed(path: str) -> None:
    assert parsed(shell_script(path)) == parsed(with_comments(PACKAGE / path))


@pytest.mark.parametrize("text", ["echo '1\n# 2\n3'\n", "cat <<'END'\n# 1\nEND\n"])
def test_removed_lines_of_a_text_are_noticed(tmp_path: Path, text: str) -> None:
    (tmp_path / "one.sh").write_text(text)
    assert parsed(shell_script(str(tmp_path / "one.sh"))) != parsed(text)


def with_comments(path: Path) -> str:
    """Return the text of a script with its comments and with the files that it sources."""
    return SOURCED.sub(lambda line: with_comments(path.parent / line[1]), path.read_text())


def parsed(text: str) -> str:
    """Return the commands of a script as bash prints them, without comments."""
    command = ["bash", "--posix", "-c", f"script() {{\n:\n{text}\n}}\ndeclare -f script"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_every_script_is_used() -> None:
    modules = "".join(path.read_text() for path in PACKAGE.rglob("*.py") if "templates_data" not in path.parts)
    read = set(re.findall(r'shell_script\("([^"]+)"\)', modules))
    sourced = {
        str((PACKAGE / path).parent.joinpath(name).resolve().relative_to(PACKAGE.resolve()))
        for path in SCRIPTS
        for name in SOURCED.findall((PACKAGE / path).read_text())
    }
    assert read | sourced == {*SCRIPTS, *OTHERS}
