"""`make` uses the first suitable Python, and names what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import REPOSITORY, require

SCRIPT = REPOSITORY / ".ci" / "make-environment"

TOO_OLD = "#!/bin/sh\nexit 1\n"
"""A Python older than 3.11, or the shim of a version manager without a version."""

WITHOUT_VENV = f"""\
#!/bin/sh
case "$*" in
    *ensurepip*) exit 1 ;;
    *) exec {sys.executable} "$@" ;;
esac
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a folder for the PATH that contains only the shell."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "sh").symlink_to(require("sh"))
    return folder


def python(path: Path, name: str, text: str) -> None:
    (path / name).write_text(text)
    (path / name).chmod(0o755)


def make_environment(path: Path, into: Path, wanted: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(SCRIPT), str(into), wanted],
        env={**os.environ, "PATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_missing_python_shows_the_fix(path: Path, tmp_path: Path) -> None:
    python(path, "python3", TOO_OLD)
    done = make_environment(path, tmp_path / "environment")
    assert done.returncode == 1
    assert done.stderr.startswith("No Python 3.11 or newer is on the PATH.")
    for system in ("apt-get install python3 python3-venv", "dnf install python3", "brew install python"):
        assert system in done.stderr
    assert not (tmp_path / "environment").exists()


def test_missing_venv_shows_the_fix(path: Path, tmp_path: Path) -> None:
    python(path, "python3.12", WITHOUT_VENV)
    done = make_environment(path, tmp_path / "environment")
    assert done.returncode == 1
    assert "has no venv and ensurepip" in done.stderr
    assert "apt-get install python3 python3-venv" in done.stderr


def test_unsuitable_python_is_named(path: Path, tmp_path: Path) -> None:
    done = make_environment(path, tmp_path / "environment", "/nowhere/python")
    assert done.returncode == 1
    assert done.stderr.startswith("/nowhere/python is not Python 3.11 or newer")


@pytest.mark.packaging
def test_unsuitable_pythons_are_skipped(path: Path, tmp_path: Path) -> None:
    python(path, "python3.13", TOO_OLD)
    python(path, "python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    environment = tmp_path / "an environment"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").symlink_to("/nowhere/python")
    done = make_environment(path, environment)
    assert done.returncode == 0, done.stderr
    answer = subprocess.run(
        [str(environment / "bin" / "python"), "-c", "import sys; print(sys.prefix)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.strip() == str(environment)


def test_make_runs_the_steps_of_the_readme() -> None:
    make = require("make")
    plan = subprocess.run(
        [make, "--dry-run", "--always-make", "run"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout
    assert 'workbench-tui "sample_project"' in plan
    assert ".ci/install .venv train" in plan
    tests = subprocess.run(
        [make, "--dry-run", "--always-make", "test"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout
    for step in ("ruff check", "ruff format --check", "mypy", "lint-imports", "pytest"):
        assert f".venv/bin/{step}" in tests


def test_make_dev_opens_the_sample_with_the_console() -> None:
    plan = subprocess.run(
        [require("make"), "--dry-run", "--always-make", "dev"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert ".ci/install .venv dev" in plan
    assert "textual run --dev --command 'workbench-tui \"sample_project\"'" in plan


def test_hooks_run_the_tools_of_the_environment_only() -> None:
    (repository,) = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert repository["repo"] == "local"
    assert [hook["entry"].split()[:2] for hook in repository["hooks"]] == [
        [".venv/bin/ruff", "check"],
        [".venv/bin/ruff", "format"],
        [".venv/bin/mypy"],
    ]


RELEASE = REPOSITORY / ".ci" / "release"


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """Return a repository with a version and its changes, as `.ci/release` reads them."""
    for path, text in {
        "tui_workbench/__init__.py": '__version__ = "1.2.0"\n',
        "CHANGELOG.md": "# Changes\n\n## 1.2.0, unreleased\n\n## 1.1.0, 2026-01-31\n",
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "first"]):
        subprocess.run([*git, *command], cwd=tmp_path, check=True)
    return tmp_path


def release(folder: Path) -> str:
    """Return the error of `make release`."""
    script = ["/bin/sh", str(RELEASE), str(Path(sys.prefix))]
    variables = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(script, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr


def test_unreleased_version_is_not_built(released: Path) -> None:
    assert release(released) == (
        "CHANGELOG.md: version 1.2.0 is unreleased. Replace 'unreleased' by the date, and commit.\n"
    )


def test_uncommitted_changes_are_not_released(released: Path) -> None:
    (released / "new.py").touch()
    assert release(released).startswith("the working tree has changes.")


@pytest.mark.parametrize("version", ["1.1.0", "1.2"])
def test_version_without_changes_is_not_built(released: Path, version: str) -> None:
    (released / "tui_workbench" / "__init__.py").write_text(f'__version__ = "{version}"\n')
    subprocess.run(["git", "update-index", "--assume-unchanged", "tui_workbench/__init__.py"], cwd=released, check=True)
    assert f"begins with '1.2.0, unreleased', but tui_workbench/__init__.py has version {version}" in release(released)
