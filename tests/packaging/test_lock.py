"""The lock files of `.ci/install` have the packages of pyproject.toml, with hashes. `make lock` writes them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import REPOSITORY

LOCKED = REPOSITORY / ".ci" / "locked"
EXTRAS = ("train", "test", "dev")
FIX = "run make lock"

OURS = "workbench-tui (pyproject.toml)"
"""The reason of uv for a package that pyproject.toml names."""

HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


class Locked(NamedTuple):
    """A package of a lock file."""

    version: str
    hashes: int
    is_direct: bool  # named in pyproject.toml


def locked(extra: str) -> dict[str, Locked]:
    """Return the packages of the lock file of an extra, by name."""
    text = (LOCKED / f"{extra}.txt").read_text(encoding="utf-8")
    entries = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==(\S+)(.*(?:\n[ ].*)*)", text, re.MULTILINE)
    return {name: Locked(version, len(HASH.findall(rest)), OURS in rest) for name, version, rest in entries}


def required(extra: str) -> dict[str, Requirement]:
    """Return the requirements of pyproject.toml with an extra, by name. `.ci/install` does not lock torch."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"][extra]]
    return {canonicalize_name(each.name): each for each in map(Requirement, lines) if each.name != "torch"}


@pytest.mark.parametrize("extra", EXTRAS)
class TestLockFile:
    def test_versions_satisfy_pyproject(self, extra: str) -> None:
        versions = locked(extra)
        wrong = [
            str(requirement)
            for name, requirement in required(extra).items()
            if name not in versions or not requirement.specifier.contains(versions[name].version)
        ]
        assert not wrong, FIX

    def test_removed_requirements_are_not_locked(self, extra: str) -> None:
        direct = {name for name, package in locked(extra).items() if package.is_direct}
        assert direct <= set(required(extra)), FIX

    def test_every_package_has_hashes(self, extra: str) -> None:
        assert not [name for name, package in locked(extra).items() if not package.hashes]

    def test_no_address_of_an_index_is_named(self, extra: str) -> None:
        text = (LOCKED / f"{extra}.txt").read_text(encoding="utf-8")
        assert not re.search(r"://|index-url|find-links", text)

    def test_environments_agree_about_versions(self, extra: str) -> None:
        versions = {name: package.version for name, package in locked("test").items()}
        assert not {
            name: package.version
            for name, package in locked(extra).items()
            if package.version != versions.get(name, package.version)
        }

    def test_build_backend_is_locked(self, extra: str) -> None:
        (backend,) = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
        wanted = Requirement(backend)
        assert wanted.specifier.contains(locked(extra)[wanted.name].version), FIX

    def test_torch_and_its_libraries_are_left_to_pip(self, extra: str) -> None:
        assert not [name for name in locked(extra) if re.match("torch$|triton|nvidia-c|cuda-", name)]


def test_locked_dependencies_of_torch_are_those_of_its_builds() -> None:
    (torch,) = tomllib.loads((LOCKED / "torch.toml").read_text("utf-8"))["dependency-metadata"]
    installed = {canonicalize_name(Requirement(line).name) for line in requires("torch") or []}
    assert {canonicalize_name(Requirement(line).name) for line in torch["requires-dist"]} <= installed


@pytest.mark.packaging
def test_make_lock_keeps_versions_and_adds_new_requirements(tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / ".ci", tmp_path / ".ci")
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(text.replace('train = ["torch', 'train = ["pyte>=0.8.2", "torch'))
    script = ["/bin/sh", ".ci/lock", str(Path(sys.prefix))]
    done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    written = (tmp_path / ".ci" / "locked" / "train.txt").read_text(encoding="utf-8")
    before = locked("train")
    assert f"pyte=={locked('test')['pyte'].version}" in written
    assert all(f"{name}=={package.version}" in re.sub(r"\[.*?\]", "", written) for name, package in before.items())
