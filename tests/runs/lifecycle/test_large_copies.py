"""Runs of a project with many files: the end does not wait for the removal of the copy, and the copy is reused."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.conftest import write_project
from tests.faults.support import Workbench, kill_controller, until
from tui_workbench.runs.snapshots.snapshot import SnapshotStore
from tui_workbench.targets.hosts.host_run import SPARE_FILES

pytestmark = pytest.mark.processes

FILES = SPARE_FILES + 100

CHANGES = """\
import os, pathlib, shutil
first = pathlib.Path("data/0")
before = first.stat()
first.write_text("X")
os.utime(first, ns=(before.st_atime_ns, before.st_mtime_ns))
os.rename("data/1", "renamed")
os.remove("data/2")
shutil.move("pkg", "outputs/pkg")
os.symlink("outputs/pkg", "pkg")
os.chmod("data/3", 0o700)
os.link("data/4", "outputs/linked")
pathlib.Path("outputs/model").write_text("w")
pathlib.Path("new").mkdir()
pathlib.Path("new/file").write_text("n")
"""

SHOWS = """\
import json, os
found = {}
for folder, folders, files in os.walk("."):
    for name in folders + files:
        path = os.path.join(folder, name)
        is_file = os.path.isfile(path) and not os.path.islink(path)
        found[path[2:]] = [oct(os.lstat(path).st_mode), open(path).read() if is_file else ""]
with open("outputs/found.json", "w") as file:
    json.dump(found, file)
"""

FAILS_ONCE = """\
import os, sys
attempt = os.environ.get("WORKBENCH_ATTEMPT", "1")
with open("checkpoint", "a") as file:
    file.write(attempt)
print(open("data/0").read(), open("checkpoint").read(), len(os.listdir("data")))
sys.exit(attempt == "1")
"""


class Large:
    """A tracked project with enough files for a spare."""

    def __init__(self, folder: Path) -> None:
        self.root = write_project(folder, tracked=True)
        (self.root / "data").mkdir()
        for number in range(FILES):
            (self.root / "data" / str(number)).write_text(str(number % 10))
        (self.root / "pkg").mkdir()
        (self.root / "pkg" / "code.py").write_text("code = 1\n")
        for name, script in (("changes.py", CHANGES), ("shows.py", SHOWS), ("fails.py", FAILS_ONCE)):
            (self.root / name).write_text(script)
        self.workbench = Workbench(self.root)
        self.store = SnapshotStore(str(self.root), str(self.root / ".workbench"))
        self.spares = Path(self.store.repository.path, "spare")

    def submit(self, script: str, state: str = "Completed") -> Path:
        """Submit a run, and return its directory when it has ended."""
        run_id = self.workbench.detach(script)
        self.workbench.until_status(run_id, state)
        return self.workbench.run_directory(run_id)

    def wait_for_spare(self) -> None:
        """Wait until the copy of an ended run is kept, and all other copies are removed."""
        until(lambda: self.spares.is_dir() and os.listdir(self.spares) == ["ready"], "the spare")


@pytest.fixture
def large(tmp_path: Path) -> Large:
    return Large(tmp_path / "project")


def test_next_run_sees_the_snapshot_and_nothing_else(large: Large) -> None:
    expected = json.loads((large.submit("shows.py") / "outputs" / "found.json").read_text())
    large.wait_for_spare()
    changed = large.submit("changes.py")
    assert sorted(os.listdir(changed / "work")) == ["data", "new", "pkg", "renamed"]
    assert sorted(os.listdir(changed / "work" / "data")) == ["0", "3", "4"]
    assert sorted(os.listdir(changed / "outputs")) == ["linked", "model", "pkg"]
    large.wait_for_spare()
    reused = (large.spares / "ready" / "work" / "data" / "9").stat().st_ino
    run_id = large.workbench.detach("shows.py")
    copied = large.workbench.run_directory(run_id) / "work" / "data" / "9"
    large.workbench.until_status(run_id, "Completed")
    large.wait_for_spare()
    assert (large.spares / "ready" / "work" / "data" / "9").stat().st_ino == reused
    assert not copied.exists()
    found = json.loads((large.workbench.run_directory(run_id) / "outputs" / "found.json").read_text())
    assert found == expected


def test_end_is_recorded_before_the_copy_is_kept_or_removed(large: Large) -> None:
    run_id = large.workbench.detach("changes.py")
    with large.store.repository.exclusive():
        large.workbench.until_status(run_id, "Completed")
        work = large.workbench.run_directory(run_id) / "work"
        assert (work / "new" / "file").read_text() == "n"
        assert not (work / "data" / "9").exists()
        assert os.listdir(large.spares) == [f"ended-{run_id}"]
    large.wait_for_spare()


def test_copy_of_a_killed_controller_is_removed_later(large: Large) -> None:
    run_id = large.workbench.detach("changes.py")
    with large.store.repository.exclusive():
        large.workbench.until_status(run_id, "Completed")
        kill_controller(large.workbench.run_directory(run_id))
    assert os.listdir(large.spares) == [f"ended-{run_id}"]
    large.submit("changes.py")
    large.wait_for_spare()


def test_failed_run_continues_in_a_reused_copy(large: Large) -> None:
    run = large.submit("fails.py", "Failed")
    large.wait_for_spare()
    assert (run / "work" / "checkpoint").read_text() == "1"
    shutil.rmtree(large.root / "data")
    assert large.workbench.run("experiment", "resume", "--run", run.name).code == 0
    large.workbench.until_status(run.name, "Completed")
    assert (run / "work" / "checkpoint").read_text() == "12"
    assert large.workbench.log(run.name) == f"0 1 {FILES}\n0 12 {FILES}\n"
    large.wait_for_spare()
