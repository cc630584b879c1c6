"""The number of files that differ from the last commit, on real repositories."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tui_workbench.ui.files import changed_files
from tui_workbench.ui.files.changed_files import ChangedFiles


def git(root: Path, *words: str) -> None:
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    subprocess.run(["git", *identity, *words], cwd=root, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(changed_files, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(changed_files, "SHARE", 0)
    git(tmp_path, "init", "-q")
    (tmp_path / "one.py").write_text("1")
    (tmp_path / "two.py").write_text("2")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def test_changed_and_new_files_count_until_a_commit(repository: Path) -> None:
    changes = ChangedFiles(str(repository))
    assert not changes.update()
    (repository / "one.py").write_text("other")
    (repository / "odd\nname.py").write_text("new")
    assert not changes.update(), "nothing hints at it yet"
    changes.expect()
    assert changes.update()
    assert changes.number == 2
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "second")
    assert changes.update(), "git's index is another one"
    assert changes.number == 0


def test_counting_writes_nothing_and_runs_no_configured_program(repository: Path) -> None:
    trap = repository / ".git" / "trap"
    trap.write_text("#!/bin/sh\ntouch " + str(repository / ".git" / "sprung"))
    trap.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(trap))
    os.utime(repository / "one.py")  # an index that git would like to refresh
    index = (repository / ".git" / "index").read_bytes()
    changes = ChangedFiles(str(repository))
    changes.update()
    assert (repository / ".git" / "index").read_bytes() == index
    assert not (repository / ".git" / "sprung").exists()


def test_folder_without_repository_has_no_changes(tmp_path: Path) -> None:
    assert not ChangedFiles(str(tmp_path)).update()
