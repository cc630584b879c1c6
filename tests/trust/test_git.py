"""Reading hostile Git repositories executes nothing."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import require, write_project
from tests.faults.support import Workbench
from tests.runs.support import REQUEST, write_configuration, write_files
from tests.trust.hostile import fingerprint, state_directory
from tui_workbench.core.errors import StorageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.snapshots import snapshot_view
from tui_workbench.runs.snapshots.provenance import git_state
from tui_workbench.runs.snapshots.restore import restore
from tui_workbench.runs.snapshots.snapshot_view import snapshot_content, snapshot_diff, snapshot_files
from tui_workbench.runs.submission.launch import create_run
from tui_workbench.ui.files.changed_files import ChangedFiles


def git(folder: Path, *arguments: str, input: str = "") -> str:
    words = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    done = subprocess.run(words, cwd=folder, input=input, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def canary_command(folder: Path) -> tuple[Path, str]:
    """Return a file, and a command that creates it."""
    canary, script = folder / "canary", folder / "evil"
    script.write_text(f"#!/bin/sh\necho ran >> '{canary}'\ncat\n")
    script.chmod(0o755)
    return canary, str(script)


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


class Trap:
    """A repository with the project, whose configuration is to be made hostile."""

    def __init__(self, folder: Path) -> None:
        self.root = write_project(folder / "project")
        self.canary, self.command = canary_command(folder)
        git(self.root, "init", "-q")
        git(self.root, "add", "--all")
        git(self.root, "commit", "-qm", "first")

    def write(self, name: str, text: str) -> None:
        """Append to a file in the repository."""
        with (self.root / ".git" / name).open("a") as file:
            file.write(text)

    def assert_nothing_runs(self) -> None:
        os.utime(self.root / "hello.py", (1, 1))
        ChangedFiles(str(self.root)).update()
        assert not self.canary.exists(), "counting changed files"
        write_files(self.root, {"hello.py": "print('changed')\n"})
        git_state(str(self.root))
        assert not self.canary.exists(), "provenance"


@pytest.mark.parametrize("name", ["", "evil", "a=b", "a.b", 'q"uote', "EVIL", " "])
@pytest.mark.parametrize("key", ["clean", "process"])
@pytest.mark.parametrize("included", [False, True])
def test_filters_are_not_executed(trap: Trap, name: str, key: str, included: bool) -> None:
    escaped = name.replace('"', '\\"')
    config = "more" if included else "config"
    trap.write(config, f'[filter "{escaped}"]\n\t{key} = {trap.command}\n\trequired = true\n')
    trap.write("config", f"[core]\n\tfsmonitor = {trap.command}\n[include]\n\tpath = more\n")
    trap.write("info/attributes", f"*.py filter={name}\n")
    trap.assert_nothing_runs()


def test_filter_that_only_all_scopes_together_include_is_not_executed(trap: Trap) -> None:
    git(trap.root, "config", "extensions.worktreeConfig", "true")
    trap.write("config", '[includeIf "hasconfig:remote.*.url:https://x.example/**"]\n\tpath = evil.inc\n')
    trap.write("config.worktree", '[remote "y"]\n\turl = https://x.example/a\n')
    trap.write("evil.inc", f'[filter "evil"]\n\tclean = {trap.command}\n')
    trap.write("info/attributes", "*.py filter=evil\n")
    trap.assert_nothing_runs()


@pytest.mark.system
def test_extension_of_git_lfs_is_not_executed(trap: Trap) -> None:
    require("git-lfs")
    git(trap.root, "lfs", "install")  # into the user's configuration
    write_files(trap.root, {".gitattributes": "*.py filter=lfs\n"})
    trap.write("config", f'[lfs "extension.evil"]\n\tclean = {trap.command} %f\n\tsmudge = cat\n\tpriority = 0\n')
    trap.assert_nothing_runs()


def test_filters_of_submodules_are_not_executed(trap: Trap, tmp_path: Path) -> None:
    inner = write_project(trap.root / "inner")
    git(inner, "init", "-q")
    git(inner, "add", "--all")
    git(inner, "commit", "-qm", "first")
    git(trap.root, "add", "inner")
    git(trap.root, "commit", "-qm", "second")
    for name, text in (
        ("config", f'[filter "evil"]\n\tclean = {trap.command}\n'),
        ("info/attributes", "* filter=evil\n"),
    ):
        trap.write(f"../inner/.git/{name}", text)
    os.utime(inner / "hello.py", (1, 1))
    trap.assert_nothing_runs()


def test_snapshot_ignores_the_configuration_of_its_repository(trap: Trap) -> None:
    """The project may be writable for an agent, whose container mounts it."""
    workbench = Workbench(trap.root)
    write_configuration(trap.root, TrackedRun=True)
    assert workbench.submit("hello.py").code == 0
    repository = trap.root / ".workbench" / "snapshots.git"
    (repository / "info").mkdir(exist_ok=True)
    (repository / "info" / "attributes").write_text("* filter=evil\n")
    with (repository / "config").open("a") as file:
        file.write(
            f"[core]\n\tfsmonitor = {trap.command}\n\talternateRefsCommand = {trap.command}\n"
            f'[filter "evil"]\n\tclean = {trap.command}\n\tsmudge = {trap.command}\n\tprocess = {trap.command}\n'
        )
    (repository / "hooks").mkdir(exist_ok=True)
    for name in ("reference-transaction", "post-index-change"):
        (repository / "hooks" / name).symlink_to(trap.command)
    (repository / "commondir").write_text(f"{trap.root / '.git'}\n")
    write_files(trap.root, {"hello.py": "print('changed')\n"})
    assert workbench.submit("hello.py").code == 0
    assert workbench.run("experiment", "clean", "--yes").code == 0
    assert workbench.run("experiment", "rerun", "--run", "1").code == 0
    assert not trap.canary.exists()


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


@pytest.mark.parametrize("is_foreign", [True, False])
def test_preview_of_a_restore_changes_nothing(tmp_path: Path, is_foreign: bool) -> None:
    root = write_project(tmp_path / "project", tracked=True)
    with state_directory(tmp_path / "of the other one") if is_foreign else contextlib.nullcontext():
        _, lock, _ = create_run(Project(str(root)), REQUEST)
    lock.release()
    write_files(root, {"hello.py": "print('changed')\n", "new.py": "new\n"})
    before = fingerprint(root)
    done = Workbench(root).run("project", "restore", "--run-id", "1", "--dry-run")
    assert (done.code, done.out) == (0, "changed hello.py\nremoved new.py\n2 files would change.\n")
    assert fingerprint(root) == before


def test_preview_of_a_restore_stores_no_secret(tmp_path: Path, home: Path) -> None:
    root = write_project(tmp_path / "project", tracked=True)
    _, lock, _ = create_run(Project(str(root)), REQUEST)
    lock.release()
    write_configuration(root, EnvironmentVariables={"API_TOKEN": "5hGkq81LmPz"})
    done = Workbench(root).run("project", "restore", "--run-id", "1", "--dry-run")
    assert (done.code, done.out) == (0, "changed aml_config/local.runconfig\n1 file would change.\n")
    stored = [path for path in home.rglob("*") if path.is_file() and b"5hGkq81LmPz" in path.read_bytes()]
    assert stored == []


@pytest.mark.parametrize("is_linked", [False, True])
def test_pipe_in_place_of_an_object_is_named(snapshots: Snapshots, tmp_path: Path, is_linked: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    objects = sorted(snapshots.repository.glob("objects/??/*"))
    for path in objects:
        path.unlink()
        if is_linked:
            path.symlink_to(tmp_path / "pipe")
        else:
            os.link(tmp_path / "pipe", path)
    done = Workbench(snapshots.root).run("history", "compare", "1", "2", "--diff")
    assert done.code == 1
    assert any(f"{path}: cannot read the snapshot, because this object is" in done.err for path in objects), done.err


@pytest.mark.processes
def test_restore_of_a_tree_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine levels of ten folders, which are all the same, contain a billion files."""
    root = write_project(tmp_path / "project", tracked=True)
    project = Project(str(root))
    directory, lock, _ = create_run(project, REQUEST)
    lock.release()
    repository = str(root / ".workbench" / "snapshots.git")
    file = git(root, "-C", repository, "hash-object", "-w", str(root / "hello.py"))
    tree, kind = file, "100644 blob"
    for _ in range(9):
        listing = "".join(f"{kind} {tree}\t{number}\n" for number in range(10))
        tree, kind = git(root, "-C", repository, "mktree", input=listing), "040000 tree"
    commit = git(root, "-C", repository, "commit-tree", tree, "-m", "bomb")
    record = directory.read_record()._replace(commit_id=commit)
    before = fingerprint(root)
    monkeypatch.setattr(snapshot_view, "LIMIT_SECONDS", 1.0)
    for dry_run in (True, False):
        with pytest.raises(StorageError, match="cannot read the snapshot: git timed out"):
            restore(project, record, dry_run=dry_run)
    changed = [path for path, facts in fingerprint(root).items() if before.get(path) != facts]
    assert [path for path in changed if ".workbench" not in path] == []


@pytest.mark.parametrize("folder", ["", "inner"])
def test_pipe_in_place_of_attributes_is_refused(tmp_path: Path, folder: str) -> None:
    root = write_project(tmp_path / "project", tracked=True)
    workbench = Workbench(root)
    assert workbench.submit("hello.py").code == 0
    write_files(root, {"inner/file.py": "1\n", "hello.py": "print('changed')\n"})
    name = os.path.join(folder, ".gitattributes")
    os.mkfifo(root / name)
    for done in (workbench.run("project", "restore", "--run-id", "1", "--dry-run"), workbench.submit("hello.py")):
        assert done.code == 1
        assert f"{name} is not a regular file" in done.err


@pytest.mark.processes
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
