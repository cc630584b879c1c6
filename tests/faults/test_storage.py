"""Full or read-only disks, a machine without Git, damaged files: reported in one line, and nothing is lost."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import require_root, write_project
from tests.faults.support import Workbench, tree, until
from tui_workbench.cli.doctor import doctor_folders
from tui_workbench.cli.doctor.answer import BROKEN
from tui_workbench.projects.project import Project


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of 4 MB; only root can mount it."""
    require_root("to mount a small disk")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m,nr_inodes=2000", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"this machine lets not even root mount: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> Path:
    """Fill the disk, and return the file to remove to free space."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
    return ballast


def test_doctor_reports_a_disk_without_inodes(small_disk: Path) -> None:
    with contextlib.suppress(OSError):
        for number in itertools.count():
            (small_disk / str(number)).touch()
    answer = doctor_folders.disk([str(small_disk)])
    assert (answer.state, answer.message) == (BROKEN, f"no inodes free at {small_disk}")


@pytest.mark.parametrize("tracked", [False, True])
def test_submit_on_a_full_disk_is_reported_and_leaves_nothing(small_disk: Path, tracked: bool) -> None:
    root = write_project(small_disk / "project", tracked=tracked)
    workbench = Workbench(root)
    assert workbench.submit("hello.py").out.endswith("hello\n")
    ballast = fill(small_disk)
    runs = sorted(os.listdir(root / ".workbench" / "runs"))
    workbench.run("experiment", "submit", "-c", "local", "hello.py").error(1, str(root), "space")
    assert sorted(os.listdir(root / ".workbench" / "runs")) == runs
    assert len(workbench.history()) == 1
    ballast.unlink()
    assert workbench.submit("hello.py").out.endswith("hello\n")
    assert [run["status"] for run in workbench.history()] == ["Completed", "Completed"]


def test_first_submit_on_a_full_disk_is_reported(small_disk: Path) -> None:
    root = write_project(small_disk / "project", tracked=True)
    ballast = fill(small_disk)
    workbench = Workbench(root)
    workbench.run("experiment", "submit", "-c", "local", "hello.py").error(1, str(root), "space")
    ballast.unlink()
    assert workbench.submit("hello.py").code == 0


FILLING = """\
import os, sys
print("begin", flush=True)
with open(sys.argv[1], "wb", buffering=0) as file:
    try:
        while True:
            file.write(b"x" * 4096)
    except OSError as error:
        caught = error
try:
    print("the disk is full", flush=True)
except OSError:
    pass
os._exit(5)
"""


def test_end_of_a_run_that_filled_the_disk_is_recorded_later(small_disk: Path) -> None:
    root = write_project(small_disk / "project")
    (root / "filling.py").write_text(FILLING)
    workbench = Workbench(root)
    ballast = small_disk / "ballast"
    run_id = workbench.detach("filling.py", str(ballast))
    directory = root / ".workbench" / "runs" / run_id
    pid = int(until(lambda: (directory / "pid").exists() and (directory / "pid").read_text().split())[0])
    until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the supervising shell")

    # Queries still work while the disk is full.
    assert workbench.log(run_id).startswith("begin\n")
    assert workbench.run("history", "list").code == 0
    assert workbench.info(run_id)["status"] in ("Running", "Failed", "Unknown")

    ballast.unlink()
    until(lambda: workbench.info(run_id)["status"] != "Running", "the end of the run")
    information = workbench.info(run_id)
    assert (information["status"], information["exit_code"]) in [("Failed", 5), ("Unknown", None)]
    assert information["reason"]
    assert workbench.submit("hello.py").code == 0


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """Return a project on which nothing can be written, not even by root."""
    root = write_project(tmp_path / "mount" / "project", tracked=True)
    (root / "data.txt").write_text("precious\n")
    if os.geteuid() != 0:
        for folder in (root, root / "aml_config"):
            folder.chmod(0o555)
        yield root
        for folder in (root, root / "aml_config"):
            folder.chmod(0o755)
        return
    bound = subprocess.run(["mount", "--bind", str(root), str(root)], capture_output=True, check=False)
    if bound.returncode != 0:
        pytest.skip(f"this machine lets not even root mount: {bound.stderr.decode().strip()}")
    subprocess.run(["mount", "-o", "remount,ro,bind", str(root)], check=True)
    yield root
    subprocess.run(["umount", "--lazy", str(root)], check=True)


def test_runs_of_a_read_only_project_are_stored_with_the_user(read_only: Path, home: Path) -> None:
    (before, workbench) = tree(read_only), Workbench(read_only)
    submitted = workbench.submit("hello.py")
    assert submitted.code == 0, submitted
    assert submitted.out.endswith("hello\n")
    elsewhere = home / ".local" / "share" / "workbench-tui"
    assert submitted.err.startswith("workbench-tui: ")
    assert str(read_only) in submitted.err
    assert str(elsewhere) in submitted.err
    assert submitted.err.count("\n") == 1
    (run,) = workbench.history()
    assert run["status"] == "Completed"
    assert workbench.log(run["run_id"]) == "hello\n"
    assert list(elsewhere.rglob("run.json"))
    assert tree(read_only) == before


def test_read_only_project_without_user_directory_is_reported(read_only: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    workbench = Workbench(read_only, {"XDG_DATA_HOME": str(tmp_path / "file")})
    submitted = workbench.run("experiment", "submit", "-c", "local", "hello.py")
    assert submitted.code == 1, submitted
    assert str(tmp_path / "file") in submitted.err.splitlines()[-1]
    assert "Traceback" not in submitted.err
    assert workbench.run("history", "list").out == "[]\n"


def test_tracked_run_without_git_uses_a_plain_copy(tmp_path: Path) -> None:
    root = write_project(tmp_path / "project", tracked=True)
    (root / ".gitignore").write_text("data/\n")
    (root / "data").mkdir()
    (root / "data" / "set.txt").write_text("large\n")
    (root / "copy.py").write_text(
        "import os, pathlib\n"
        "os.makedirs('outputs', exist_ok=True)\n"
        "pathlib.Path('outputs', 'model').write_text('trained')\n"
        "pathlib.Path('hello.py').write_text('changed by the run')\n"
        "print(open('data/set.txt').read(), end='')\n"
    )
    (tmp_path / "empty").mkdir()
    before = tree(root)
    workbench = Workbench(root, {"PATH": str(tmp_path / "empty")})
    submitted = workbench.submit("copy.py")
    assert submitted.code == 0, submitted
    assert submitted.out.endswith("\nlarge\n")
    assert tree(root) == before
    (run,) = workbench.history()
    directory = root / ".workbench" / "runs" / run["run_id"]
    assert (directory / "outputs" / "model").read_text() == "trained"
    plan = workbench.run("experiment", "submit", "-c", "local", "--dry-run", "copy.py")
    assert "git is not installed" in plan.out


def test_broken_snapshot_store_allows_untracked_runs(tmp_path: Path) -> None:
    root = write_project(tmp_path / "project", tracked=True)
    (root / ".workbench").mkdir()
    (root / ".workbench" / "snapshots.git").write_text("in the way")
    workbench = Workbench(root)
    workbench.run("experiment", "submit", "-c", "local", "hello.py").error(1, "snapshots.git")
    assert workbench.history() == []
    text = (root / "aml_config" / "local.runconfig").read_text()
    (root / "aml_config" / "local.runconfig").write_text(text.replace("TrackedRun: true", "TrackedRun: false"))
    assert workbench.submit("hello.py").code == 0


def test_damaged_configuration_cache_is_rebuilt(tmp_path: Path) -> None:
    root = write_project(tmp_path / "project")
    for file in (root / "aml_config").iterdir():
        os.utime(file, (1e9, 1e9))  # only files that have not changed for a while are cached
    workbench = Workbench(root)
    for _ in range(2):  # the first run creates the folder of the cache
        assert workbench.submit("hello.py").code == 0
    for file in Path(Project(str(root)).cache_directory).iterdir():
        file.write_bytes(b"{]")
    assert workbench.submit("hello.py").code == 0
    assert sys.executable in workbench.run("computetarget", "list").out


def test_damaged_record_does_not_hide_other_runs(tmp_path: Path) -> None:
    root = write_project(tmp_path / "project")
    workbench = Workbench(root)
    for _ in range(2):
        assert workbench.submit("hello.py").code == 0
    newest, oldest = workbench.history()
    (root / ".workbench" / "runs" / newest["run_id"] / "run.json").write_text("{")
    for file in Path(Project(str(root)).cache_directory).glob("index.db*"):
        file.unlink()
    assert oldest["run_id"] in [run["run_id"] for run in workbench.history()]
    workbench.run("history", "info", "--run", newest["run_id"]).error(2, "run.json")
