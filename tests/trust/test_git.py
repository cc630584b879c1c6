"""Reading hostile Git repositories executes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import write_project
from tests.faults.support import Workbench
from tests.runs.support import REQUEST, write_files
from tests.trust.hostile import fingerprint, state_directory
from tui_workbench.core.errors import StorageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.snapshots.snapshot_view import snapshot_content, snapshot_diff, snapshot_files
from tui_workbench.runs.submission.launch import create_run
from tui_workbench.targets.base.interpreter import python_version, version_without_project
from tui_workbench.ui.files.changed_files import ChangedFiles


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def canary_command(folder: Path) -> tuple[Path, str]:
    """Return a file, and a command that creates it."""
    canary, script = folder / "canary", folder / "evil"
    script.write_text(f"#!/bin/sh\necho ran >> '{canary}'\ncat\n")
    script.chmod(0o755)
    return canary, str(script)


@pytest.mark.parametrize("name", ["evil", "a=b", "a.b c"])
@pytest.mark.parametrize("key", ["clean", "process"])
@pytest.mark.parametrize("included", [False, True])
def test_counting_changed_files_runs_no_git_filter(tmp_path: Path, name: str, key: str, included: bool) -> None:
    root = write_project(tmp_path / "project")
    canary, command = canary_command(tmp_path)
    git(root, "init", "-q")
    git(root, "add", "--all")
    git(root, "commit", "-qm", "first")
    config = root / ("more" if included else ".git/config")
    quoted = command.replace('"', "")
    with config.open("a") as file:
        file.write(f'[filter "{name}"]\n\t{key} = {quoted}\n\trequired = true\n')
    with (root / ".git/config").open("a") as file:
        file.write(f"[core]\n\tfsmonitor = {command}\n")
        if included:
            file.write(f"[include]\n\tpath = {config}\n")
    (root / ".git/info/attributes").write_text(f"*.py filter={name.split()[0]}\n")
    os.utime(root / "hello.py", (1, 1))
    assert ChangedFiles(str(root)).update() in (True, False)
    assert not canary.exists()


class Snapshots:
    """Two snapshots in a repository whose configuration, hooks and remote are hostile."""

    def __init__(self, folder: Path) -> None:
        self.root = write_project(folder / "project", tracked=True)
        self.canary, command = canary_command(folder)
        with state_directory(folder / "of the other one"):
            self.first = self._run()
            write_files(self.root, {"hello.py": "print('changed')\n"})
            self.second = self._run()
        self.state = str(self.root / ".workbench")
        repository = self.root / ".workbench" / "snapshots.git"
        hooks = repository / "hooks"
        hooks.mkdir(exist_ok=True)
        for name in ("pre-commit", "post-index-change", "reference-transaction", "post-checkout"):
            (hooks / name).write_text(Path(command).read_text())
            (hooks / name).chmod(0o755)
        (repository / "config").write_text(
            "[core]\n\trepositoryformatversion = 1\n\tbare = true\n"
            f"\tfsmonitor = {command}\n\tpager = {command}\n\tsshCommand = {command}\n\thooksPath = {hooks}\n"
            f'[diff]\n\texternal = {command}\n[diff "evil"]\n\ttextconv = {command}\n\tcommand = {command}\n'
            f'[filter "evil"]\n\tclean = {command}\n\tsmudge = {command}\n'
            "[extensions]\n\tpartialClone = origin\n"
            f'[remote "origin"]\n\turl = {folder}\n\tuploadpack = {command}\n\tpromisor = true\n'
        )
        info = repository / "info"
        info.mkdir(exist_ok=True)
        (info / "attributes").write_text("* diff=evil filter=evil\n")
        self.repository = repository

    def _run(self) -> str:
        _, lock, record = create_run(Project(str(self.root)), REQUEST)
        lock.release()
        return record.commit_id


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    return Snapshots(tmp_path)


def test_reading_snapshots_executes_and_changes_nothing(snapshots: Snapshots) -> None:
    before = fingerprint(snapshots.root)
    paths = [file.path for file in snapshot_files(snapshots.state, snapshots.first)]
    assert "hello.py" in paths
    assert snapshot_content(snapshots.state, snapshots.second, "hello.py") == b"print('changed')\n"
    assert "+print('changed')" in snapshot_diff(snapshots.state, snapshots.first, snapshots.second)
    assert fingerprint(snapshots.root) == before
    assert not snapshots.canary.exists()


def test_missing_object_is_not_fetched(snapshots: Snapshots) -> None:
    with pytest.raises(StorageError):
        snapshot_files(snapshots.state, "1" * 40)
    assert not snapshots.canary.exists()


def test_comparing_code_of_imported_runs_executes_nothing(snapshots: Snapshots) -> None:
    before = fingerprint(snapshots.root)
    done = Workbench(snapshots.root).run("history", "compare", "1", "2", "--diff")
    assert "changed" in done.out
    assert fingerprint(snapshots.root) == before
    assert not snapshots.canary.exists()


@pytest.mark.parametrize("folder", ["plain", 'a:b "c'])
def test_submit_renames_a_foreign_repository(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    snapshots = Snapshots(tmp_path / folder)
    workbench = Workbench(snapshots.root)
    for _ in range(2):
        assert workbench.submit("hello.py").code == 0
    aside = [path.name for path in (snapshots.root / ".workbench").glob("snapshots-*")]
    assert aside == ["snapshots-imported-1.git"]
    assert not snapshots.canary.exists()
    assert snapshot_content(snapshots.state, snapshots.second, "hello.py") == b"print('changed')\n"
    assert workbench.run("experiment", "rerun", "--run", "1").code == 0
    assert not snapshots.canary.exists()


class TestInterpreters:
    """Interpreters whose version is determined when a project is opened."""

    def test_interpreter_in_the_project_is_not_executed(self, tmp_path: Path) -> None:
        canary, command = canary_command(tmp_path)
        program = tmp_path / "project" / "bin" / "python3"
        program.parent.mkdir(parents=True)
        program.write_text(Path(command).read_text())
        program.chmod(0o755)
        assert version_without_project(str(program), str(tmp_path / "project")) == ""
        assert not canary.exists()

    def test_program_other_than_python_is_not_executed(self, tmp_path: Path) -> None:
        canary, command = canary_command(tmp_path)
        assert version_without_project(command, str(tmp_path / "project")) == ""
        assert not canary.exists()

    def test_version_of_a_virtual_environment_in_the_project(self, tmp_path: Path) -> None:
        real = os.path.realpath(sys.executable)
        link = tmp_path / "project" / ".venv" / "bin" / "python"
        link.parent.mkdir(parents=True)
        link.symlink_to(real)
        assert version_without_project(str(link), str(tmp_path / "project")) == python_version(real)
