"""Reading the project of another user executes and changes nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.faults.support import COMMAND
from tests.runs.support import NOBODY, let_everybody_in
from tests.trust.hostile import READING, Hostile, fingerprint
from tests.waiting import PATIENCE
from tui_workbench.runs.store.rundir import ControllerLock

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root gives files away"),
]

OTHER = 65533
"""A user who is neither root nor the reader of the project."""


@pytest.fixture
def hostile(tmp_path: Path) -> Hostile:
    one = Hostile(tmp_path)
    let_everybody_in(tmp_path)
    return one


@pytest.fixture
def looker(tmp_path: Path) -> Path:
    """Return the home directory of the user who reads the project."""
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    return home


def look(hostile: Hostile, home: Path, command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run a command in the project as NOBODY."""
    change = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    return subprocess.run(
        [*change, *COMMAND, *command],
        cwd=hostile.root,
        env={**environment, "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def open_to(hostile: Hostile, *, owner: int, modes: int) -> None:
    """Change the owner of the project, and add these permissions for all users."""
    for path in (hostile.root, *hostile.root.rglob("*")):
        os.chown(path, owner, owner, follow_symlinks=False)
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (modes if path.is_dir() else modes & 0o666))


PROJECTS = {"of root": (0, 0o755), "of root, private runs": (0, 0), "that everybody can write": (OTHER, 0o777)}


@pytest.mark.system
@pytest.mark.parametrize("kind", PROJECTS)
def test_reading_another_users_project_changes_nothing(hostile: Hostile, looker: Path, kind: str) -> None:
    owner, modes = PROJECTS[kind]
    open_to(hostile, owner=owner, modes=modes)
    before = fingerprint(hostile.root, hostile.victim)
    for command in READING:
        done = look(hostile, looker, command)
        assert "Traceback" not in done.stderr, (command, done.stderr)
        assert fingerprint(hostile.root, hostile.victim) == before, command
    assert not hostile.canary.exists()
    assert not any(ControllerLock.holder(directory) for directory in hostile.runs.values())


@pytest.mark.system
def test_read_only_project_shows_only_own_runs(hostile: Hostile, looker: Path) -> None:
    open_to(hostile, owner=0, modes=0o755)
    done = look(hostile, looker, ("history", "list"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


@pytest.mark.system
def test_runs_of_another_user_are_imported(hostile: Hostile, looker: Path) -> None:
    open_to(hostile, owner=OTHER, modes=0o777)
    listed = json.loads(look(hostile, looker, ("history", "list")).stdout)
    assert len(listed) >= len(hostile.runs)
    assert {run["reason"] for run in listed} == {"imported: not submitted by you on this machine"}


@pytest.mark.system
def test_run_of_another_user_cannot_be_taken_over(hostile: Hostile, looker: Path) -> None:
    open_to(hostile, owner=OTHER, modes=0o777)
    before = fingerprint(hostile.root, hostile.victim)
    done = look(hostile, looker, ("experiment", "resume", "--run", "1", "--yes"))
    assert done.returncode != 0
    assert "If the project is not yours" in done.stderr
    assert fingerprint(hostile.root, hostile.victim) == before
    assert not hostile.canary.exists()
