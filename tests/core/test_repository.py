"""Reading the git repository of a project without its configuration: every kind of repository that git makes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tui_workbench.core import repository
from tui_workbench.core.git import GitError
from tui_workbench.core.repository import Head, files_not_ignored, find_repository, project_git, read_head

STATUS = ("status", "--porcelain=v1", "-z", "--ignore-submodules=all")


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "init.defaultBranch=main")
    words = ["git", *identity, "-c", "protocol.file.allow=always", *arguments]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def make(root: Path, *init: str) -> Path:
    """Return a repository with one commit of several files."""
    for name in ("kept/deep/1", "kept/deep/2", "other/1", "other/2"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    git(root, "init", "-q", *init)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    return root


def change(root: Path) -> Path:
    """Change one file and add one."""
    (root / "kept/deep/1").write_text("changed")
    (root / "new").write_text("")
    return root


def status(folder: Path) -> bytes:
    with project_git(str(folder)) as found:
        assert found is not None
        return found.run(*STATUS)


def head(folder: Path) -> Head:
    found = find_repository(str(folder))
    assert found is not None
    return read_head(found)


def plain(folder: Path) -> Path:
    return make(folder / "repository")


def sha256(folder: Path) -> Path:
    return make(folder / "repository", "--object-format=sha256")


def split_index(folder: Path) -> Path:
    root = plain(folder)
    git(root, "update-index", "--split-index")
    return root


def untracked_cache(folder: Path) -> Path:
    root = plain(folder)
    git(root, "update-index", "--untracked-cache")
    git(root, "status")
    return root


def index_version_4(folder: Path) -> Path:
    root = plain(folder)
    git(root, "update-index", "--index-version=4")
    return root


def sparse_index(folder: Path) -> Path:
    root = plain(folder)
    git(root, "sparse-checkout", "set", "--cone", "--sparse-index", "kept")
    return root


def sparse_patterns(folder: Path) -> Path:
    root = plain(folder)
    git(root, "sparse-checkout", "set", "--no-cone", "/kept/*")
    return root


def monitored_index(folder: Path) -> Path:
    root = plain(folder)
    monitor = folder / "monitor"
    monitor.write_text("#!/bin/sh\nprintf '1\\0'\n")
    monitor.chmod(0o755)
    git(root, "config", "core.fsmonitor", str(monitor))
    git(root, "status")
    assert b"FSMN" in (root / ".git" / "index").read_bytes()
    return root


def linked_work_tree(folder: Path) -> Path:
    git(plain(folder), "worktree", "add", "-q", "../linked", "-b", "feature")
    return folder / "linked"


def shared_objects(folder: Path) -> Path:
    plain(folder)
    git(folder, "clone", "-q", "--shared", "repository", "clone")
    return folder / "clone"


def shallow(folder: Path) -> Path:
    git(folder, "clone", "-q", "--depth=1", plain(folder).as_uri(), "clone")
    return folder / "clone"


def partial(folder: Path) -> Path:
    git(plain(folder), "config", "uploadpack.allowFilter", "true")
    git(folder, "clone", "-q", "--filter=blob:none", (folder / "repository").as_uri(), "clone")
    return folder / "clone"


def packed(folder: Path) -> Path:
    root = plain(folder)
    git(root, "gc", "-q")
    assert not (root / ".git/refs/heads/main").exists()
    return root


def separate_directory(folder: Path) -> Path:
    return make(folder / "repository", f"--separate-git-dir={folder / 'elsewhere'}")


def submodule(folder: Path) -> Path:
    plain(folder)
    outer = make(folder / "outer")
    git(outer, "submodule", "add", "-q", str(folder / "repository"), "inner")
    return outer / "inner"


def without_file_modes(folder: Path) -> Path:
    """Return a repository on a file system such as NTFS, where every file is executable."""
    root = plain(folder)
    git(root, "config", "core.fileMode", "false")
    (root / "other/1").chmod(0o755)
    return root


def with_line_endings(folder: Path) -> Path:
    root = plain(folder)
    git(root, "config", "core.autocrlf", "true")
    (root / "other/1").write_bytes(b"one\r\ntwo\r\n")
    git(root, "commit", "-qam", "lines")
    os.utime(root / "other/1", (1, 1))
    return root


KINDS = (
    plain, sha256, split_index, untracked_cache, index_version_4, sparse_index, sparse_patterns, monitored_index,
    linked_work_tree, shared_objects, shallow, partial, packed, separate_directory, submodule, without_file_modes,
    with_line_endings,
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_status_and_head_are_those_of_git(tmp_path: Path, kind: object) -> None:
    assert callable(kind)
    root = kind(tmp_path)
    assert status(root) == b""
    change(root)
    assert status(root) == b" M kept/deep/1\0?? new\0"
    commit, branch = git(root, "rev-parse", "HEAD"), git(root, "rev-parse", "--abbrev-ref", "HEAD")
    assert head(root) == Head(branch, commit)
    git(root, "checkout", "-q", "--detach")
    assert head(root) == Head("", commit)


def test_submodules_do_not_count_as_changed(tmp_path: Path) -> None:
    change(submodule(tmp_path))
    git(tmp_path / "outer", "commit", "-qam", "inner")
    assert status(tmp_path / "outer") == b""


def test_change_within_the_time_resolution_of_the_index_is_found(tmp_path: Path) -> None:
    root = plain(tmp_path)
    file, index = root / "kept/deep/1", root / ".git/index"
    status_of_file = file.stat()
    file.write_text("KEPT/deep/1")
    for path in (file, index):
        os.utime(path, ns=(status_of_file.st_atime_ns, status_of_file.st_mtime_ns))
    git(root, "config", "core.trustctime", "false")
    assert status(root) == b" M kept/deep/1\0"


def test_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "new").write_text("")
    assert status(tmp_path) == b"?? new\0"
    assert head(tmp_path) == Head("main", "")


def test_folder_without_a_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    with project_git(str(tmp_path)) as found:
        assert found is None


def test_ignore_files_of_project_and_user_are_used(tmp_path: Path, home: Path) -> None:
    root = change(plain(tmp_path))
    ignored = home / "my ignored"
    ignored.write_text("*.mine\n")
    git(tmp_path, "config", "--global", "core.excludesFile", "~/my ignored")
    for name, text in ((".git/info/exclude", "*.excluded\n"), (".gitignore", "*.ignored\n.gitignore\n")):
        (root / name).write_text(text)
    for name in ("a.mine", "a.excluded", "a.ignored"):
        (root / name).write_text("")
    assert status(root) == b" M kept/deep/1\0?? new\0"
    assert sorted(files_not_ignored(str(root))) == sorted(
        ["a.excluded", *(str(path.relative_to(root)) for path in root.glob("[ko]*/**/*") if path.is_file()), "new"]
    )


def test_repository_is_not_written(tmp_path: Path) -> None:
    root = change(plain(tmp_path))
    os.utime(root / "other/1", (1, 1))
    before = {path: path.stat().st_mtime_ns for path in (root / ".git").rglob("*")}
    status(root)
    assert {path: path.stat().st_mtime_ns for path in (root / ".git").rglob("*")} == before


class TestDamagedRepositories:
    def test_reftable_is_reported(self, tmp_path: Path) -> None:
        root = plain(tmp_path)
        (root / ".git/HEAD").write_text("ref: refs/heads/.invalid\n")
        (root / ".git/reftable").mkdir()
        with pytest.raises(GitError, match="reftable") as raised:
            status(root)
        assert "git refs migrate" in raised.value.remedy

    def test_unknown_object_format_is_reported(self, tmp_path: Path) -> None:
        root = plain(tmp_path)
        git(root, "config", "extensions.objectFormat", "sha3")
        with pytest.raises(GitError, match="unknown object format 'sha3'"):
            status(root)

    @pytest.mark.parametrize(
        "text", ["", "ref: refs/heads/../../../../secret", "ref: ../secret", "ref: refs/heads/loop", "secret", "\0"]
    )
    def test_damaged_head_is_reported_without_its_text(self, tmp_path: Path, text: str) -> None:
        root = plain(tmp_path)
        (tmp_path / "secret").write_text("secret")
        (root / ".git/refs/heads/loop").write_text("ref: refs/heads/loop\n")
        (root / ".git/HEAD").write_text(text)
        with pytest.raises(GitError, match="cannot read the repository"):
            status(root)

    @pytest.mark.parametrize(
        "name", ["HEAD", "index", "config", "info/exclude", "packed-refs", "objects/info/alternates"]
    )
    @pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
    def test_special_files_are_not_read(self, tmp_path: Path, name: str, kind: str) -> None:
        root = plain(tmp_path)
        git(root, "pack-refs", "--all")
        path = root / ".git" / name
        path.unlink(missing_ok=True)
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "link":
            path.symlink_to("/dev/zero")
        else:
            path.mkdir()
        with pytest.raises(GitError, match="cannot read the repository"):
            status(root)

    def test_large_index_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        root = plain(tmp_path)
        monkeypatch.setattr(repository, "LARGEST_INDEX", 100)
        with pytest.raises(GitError, match="larger than"):
            status(root)

    @pytest.mark.parametrize("text", ["".join(f"/nowhere/{number}\n" for number in range(100)), '"/nowhere"\n'])
    def test_many_and_quoted_alternates_are_refused(self, tmp_path: Path, text: str) -> None:
        root = plain(tmp_path)
        (root / ".git/objects/info/alternates").write_text(text)
        with pytest.raises(GitError, match="object stores"):
            status(root)

    @pytest.mark.processes
    def test_git_that_does_not_end_is_stopped(self, tmp_path: Path) -> None:
        root = plain(tmp_path)
        os.mkfifo(root / ".gitignore")
        with project_git(str(root), 1.0) as found:
            assert found is not None
            with pytest.raises(GitError, match="timed out"):
                found.run(*STATUS)
