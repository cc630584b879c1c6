"""`--version --check` asks the source of the installation for a newer version."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support import Installed
from tests.package_index import PackageIndex, package_index
from tui_workbench import __version__
from tui_workbench.cli.doctor import version
from tui_workbench.cli.doctor.version import newest
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.installation import FILE, FOLDER, GIT, INDEX, URL, Source


class Repository:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"file://{folder}"
        self.git("init", "--quiet", "--initial-branch=main", str(folder))

    def git(self, *words: str) -> str:
        identity = ("-c", "user.name=x", "-c", "user.email=x@x")
        done = subprocess.run(["git", "-C", str(self.folder), *identity, *words], capture_output=True, check=True)
        return done.stdout.decode().strip()

    def commit(self) -> str:
        self.git("commit", "--quiet", "--allow-empty", "--message=x")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    folder = tmp_path / "repository"
    folder.mkdir()
    return Repository(folder)


@pytest.mark.parametrize("kind", [FILE, FOLDER, URL])
def test_file_and_folder_have_no_newer_version(kind: str) -> None:
    assert newest(Source(kind, "/x")) == f"no newer version to look for: a {kind} contains one version"


@pytest.mark.parametrize("revision", ["", "main"])
def test_commit_of_a_branch_is_compared(repository: Repository, revision: str) -> None:
    source = Source(GIT, repository.url, revision=revision, commit=repository.commit())
    what = revision or "the default branch"
    assert newest(source) == f"newest commit of {what}: {source.commit} (installed)"
    newer = repository.commit()
    assert newest(source).startswith(f"newest commit of {what}: {newer}; installed: {source.commit}\nupdate: ")


def test_version_tags_are_compared_as_numbers(repository: Repository) -> None:
    source = Source(GIT, repository.url, revision="v0.9", commit=repository.commit())
    assert "no version tag" in newest(source)
    for tag in ("v0.9", "v0.10", "v0.11rc1", "wip"):
        repository.git("tag", tag)
    assert newest(source) == "newest tag: v0.10; installed: v0.9"
    assert newest(source._replace(revision="v0.10")) == "newest tag: v0.10 (installed)"


def test_missing_repository_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="cannot look for newer versions: "):
        newest(Source(GIT, f"file://{tmp_path}/missing", commit="x"))


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    with package_index(tmp_path / "index", "127.0.0.1") as index:
        for tool in ("PIP", "UV"):
            monkeypatch.setenv(f"{tool}_INDEX_URL", index.url)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("UV_NO_CONFIG", "1")
        yield index


@pytest.mark.processes
@pytest.mark.parametrize("has_pip", [True, False], ids=["pip", "uv"])
def test_index_is_asked_with_the_installer(index: PackageIndex, monkeypatch: pytest.MonkeyPatch, has_pip: bool) -> None:
    monkeypatch.setattr(version, "has_pip", lambda: has_pip)  # an environment of uv has no pip
    index.add("workbench_tui", __version__)
    assert newest(Source(INDEX)) == f"newest version: {__version__} (installed)"
    index.add("workbench_tui", "99.0")
    assert newest(Source(INDEX)).startswith(f"newest version: 99.0; installed: {__version__}\nupdate: ")


@pytest.mark.processes
def test_silent_index_is_an_error(index: PackageIndex) -> None:
    with pytest.raises(WorkbenchError, match="cannot look for newer versions: "):
        newest(Source(INDEX))


@pytest.mark.parametrize("options", [("--version", "--check"), ("-V", "--check")])
def test_options_print_the_installation(tmp_path: Path, options: tuple[str, ...]) -> None:
    lines = Installed(tmp_path).run(*options).out.splitlines()
    assert lines[0] == f"workbench-tui {__version__}"
    assert [line.split()[0] for line in lines[1:]] == ["Python", "installed", "no"]
