"""Clones of git repositories, with git and without a network."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import write_project
from tests.waiting import wait_until
from tui_workbench.core.errors import UsageError, WorkbenchError
from tui_workbench.core.progress import listening
from tui_workbench.projects.cloning import Stopped, check_url, clone_project, name_in

if TYPE_CHECKING:
    from tui_workbench.core.progress import Progress


@pytest.fixture
def repository(tmp_path: Path) -> str:
    """Return the URL of a repository that contains a project."""
    source = write_project(tmp_path / "source.git")
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@example.org")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "first")):
        subprocess.run([*git, *words], cwd=source, check=True)
    return f"file://{source}"


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_clone_has_the_files_and_the_history(repository: str, tmp_path: Path) -> None:
    root = clone_project(repository, str(tmp_path / "mine"))
    assert root == str(tmp_path / "mine")
    assert (tmp_path / "mine" / "aml_config" / "local.compute").is_file()
    log = subprocess.run(["git", "log", "--format=%s"], cwd=root, check=True, capture_output=True, text=True)
    assert log.stdout == "first\n"


def test_name_of_the_repository_is_the_default_folder(
    repository: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    assert clone_project(repository) == str(work / "source")
    assert [name_in(url) for url in ("git@host:team/a.git", "https://host/a/", "ssh://git@host:2222/b/a.git")] == [
        "a"
    ] * 3


def test_existing_folder_is_not_changed(repository: str, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("x")
    with pytest.raises(UsageError, match="mine exists and is not an empty folder"):
        clone_project(repository, str(tmp_path / "mine"))
    assert os.listdir(tmp_path / "mine") == ["notes"]


def test_stopped_clone_reports_its_progress_and_leaves_nothing(
    repository: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A git that hangs, and whose child process would outlive it: a stand-in for a server that stops sending.
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "git").write_text(
        '#!/bin/sh\nprintf "Receiving objects:  45%% (123/273)\\r" >&2\nsleep 600 &\necho $! > "$PIDS"\nwait\n'
    )
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("PIDS", str(tmp_path / "pids"))
    before = sorted(os.listdir(tmp_path))
    reports: list[Progress | None] = []
    with listening(reports.append), pytest.raises(Stopped):
        clone_project(repository, str(tmp_path / "mine"), lambda: bool(reports) and (tmp_path / "pids").exists())
    assert reports[0] is not None
    assert reports[0].summary.startswith("receiving: 123 of 273 objects, 45 %")
    assert sorted(os.listdir(tmp_path)) == sorted([*before, "pids"])
    child = int((tmp_path / "pids").read_text())
    wait_until(lambda: has_ended(child))


@pytest.mark.parametrize(
    "url",
    [
        "--upload-pack=touch /tmp/x",
        "-oProxyCommand=touch",
        "ext::sh -c touch% /tmp/x",
        "ext::sh -c touch% /tmp/x ://",
        "ssh://-oProxyCommand=touch/x",
        "fd::7",
        "/srv/project",
        "project",
        "",
        "https://host/a\nb",
    ],
)
def test_only_urls_are_passed_to_git(url: str) -> None:
    with pytest.raises(UsageError, match="is not the URL of a repository"):
        check_url(url)


@pytest.mark.parametrize("url", ["https://me:s3cret@host/x", "https://s3cret@host/x", "https://host/x?token=s3cret"])
def test_url_with_a_secret_is_refused_and_masked(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="contains a secret or a user name") as caught:
        clone_project(url, str(tmp_path / "mine"))
    assert "s3cret" not in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_reason_of_git_is_shown(tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="cannot clone file:///nowhere: '/nowhere' does not appear to be"):
        clone_project("file:///nowhere", str(tmp_path / "mine"))
    assert os.listdir(tmp_path) == []


def test_git_gets_the_settings_of_the_user_but_no_other_repository(
    repository: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(f'[url "{repository}"]\n\tinsteadOf = https://host/x\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "elsewhere"))
    root = clone_project("https://host/x", str(tmp_path / "mine"))
    assert Path(root, "hello.py").is_file()
    assert not (tmp_path / "elsewhere").exists()


def test_other_transports_are_disabled_even_if_git_allows_them(
    repository: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched = tmp_path / "touched"
    (home / ".gitconfig").write_text(
        f'[protocol "ext"]\n\tallow = always\n[url "ext::sh -c touch%s{touched}% "]\n\tinsteadOf = https://evil/\n'
    )
    with pytest.raises(WorkbenchError, match="transport 'ext' not allowed"):
        clone_project("https://evil/x", str(tmp_path / "mine"))
    assert not touched.exists()
