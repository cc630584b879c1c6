"""Reading a project prepared by another user executes and changes nothing."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import require_root, write_project
from tests.faults.support import Workbench
from tests.runs.support import REQUEST, write_files
from tests.terminal.tmux import Tmux
from tests.terminal.tmux import workbench as workbench_command
from tests.trust.hostile import PLANTS, READING, Hostile, fingerprint
from tests.waiting import PATIENCE
from tui_workbench.core.errors import ImportedRun
from tui_workbench.core.system import boot_id
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.resuming import take_over
from tui_workbench.runs.store import ownership
from tui_workbench.runs.store.new_run import new_directory
from tui_workbench.runs.store.rundir import RECORD, ControllerLock, RunDirectory
from tui_workbench.runs.submission.launch import create_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    Bystander = subprocess.Popen[bytes]


READING_RUNS = (
    ("history", "list"),
    ("history", "info", "--run", "1"),
    ("history", "info", "--run", "2"),
    ("history", "compare", "1", "2"),
    ("status", "--line"),
    ("logs", "1"),
    ("trace",),
)

MAX_MEMORY = 200 << 20
"""Bytes that a command may use, including Python and its libraries."""


@pytest.fixture
def hostile(tmp_path: Path) -> Hostile:
    return Hostile(tmp_path)


@pytest.fixture
def bystander() -> Iterator[Bystander]:
    """Return a process of this user that leads a session and belongs to no run."""
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        yield process
        process.kill()


@pytest.mark.processes
@pytest.mark.parametrize(
    "is_foreign",
    [pytest.param(False, id="own files"), pytest.param(True, id="files of another user", marks=pytest.mark.system)],
)
def test_reading_executes_and_changes_nothing(hostile: Hostile, is_foreign: bool) -> None:
    if is_foreign:
        require_root("to give files away")
        for path in (hostile.root, *hostile.root.rglob("*")):
            os.chown(path, 65534, 65534, follow_symlinks=False)
    before = fingerprint(hostile.root, hostile.victim)
    for command in READING:
        done = Workbench(hostile.root).run(*command)
        assert "Traceback" not in done.err, command
        assert fingerprint(hostile.root, hostile.victim) == before, command
        assert not hostile.canary.exists(), command
        assert not any(ControllerLock.holder(directory) for directory in hostile.runs.values()), command


@pytest.mark.processes
@pytest.mark.parametrize("kind", PLANTS)
def test_huge_and_special_files_do_not_harm_reading(hostile: Hostile, kind: str) -> None:
    hostile.plant(kind)
    commands = [workbench_command(*command) for command in READING_RUNS]
    measure = [sys.executable, "-c", MEASURE, str(PATIENCE), json.dumps(commands)]
    done = subprocess.run(measure, cwd=hostile.root, capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr
    codes, kilobytes = json.loads(done.stdout)
    assert min(codes) >= 0
    assert kilobytes << 10 < MAX_MEMORY


MEASURE = """\
import json, resource, subprocess, sys
streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "timeout": float(sys.argv[1])}
codes = [subprocess.run(command, **streams).returncode for command in json.loads(sys.argv[2])]
print(json.dumps([codes, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]))
"""
"""Runs commands in a small process, because a program starts with the peak memory of its parent."""


def test_unfinished_run_of_another_user_is_imported(hostile: Hostile) -> None:
    for run in Runs(Project(str(hostile.root))).list():
        assert (run.state, run.is_active, run.imported) == ("unknown", False, True)
        assert run.reason == "imported: not submitted by you on this machine"


def test_adopting_skips_runs_of_other_users(hostile: Hostile) -> None:
    before = fingerprint(hostile.root)
    runs = Runs(Project(str(hostile.root)))
    assert runs.resume() == []
    runs.list(adopt=True)
    runs.get(hostile.runs["over"].run_id, adopt=True)
    assert fingerprint(hostile.root) == before
    assert not hostile.canary.exists()


def test_acting_on_an_imported_run_is_refused(hostile: Hostile) -> None:
    before = fingerprint(hostile.root)
    runs = Runs(Project(str(hostile.root)))
    assert sorted(hostile.runs) == ["canceled", "over", "queued", "waiting"]
    for directory in hostile.runs.values():
        with pytest.raises(ImportedRun, match="experiment resume -r"):
            runs.cancel(directory.run_id)
        with pytest.raises(ImportedRun, match="experiment resume -r"):
            take_over(directory)
        with pytest.raises(ImportedRun, match="experiment resume -r"):
            runs.stacks(directory.run_id)
        with pytest.raises(ImportedRun):
            ControllerLock.acquire(directory)
    assert fingerprint(hostile.root) == before


def test_canceling_a_prepared_sweep_is_refused(hostile: Hostile) -> None:
    before = fingerprint(hostile.root)
    assert Workbench(hostile.root).run("experiment", "cancel", "--run", "1").code == 2
    assert fingerprint(hostile.root) == before


class TestOwnRuns:
    """Runs are recognized as those of this user."""

    @pytest.fixture
    def directory(self, project: Project) -> RunDirectory:
        directory, lock, _ = create_run(project, REQUEST)
        lock.release()
        assert directory.is_own
        return directory

    def test_copied_run_is_imported(self, directory: RunDirectory) -> None:
        os.rename(directory.path, f"{directory.path}.away")
        shutil.copytree(f"{directory.path}.away", directory.path)
        assert not directory.is_own

    def test_moved_project_has_imported_runs(self, project: Project, directory: RunDirectory) -> None:
        os.rename(project.root, f"{project.root}.moved")
        (run,) = Runs(Project(f"{project.root}.moved")).list()
        assert run.imported

    def test_linked_run_is_imported(self, directory: RunDirectory) -> None:
        os.rename(directory.path, f"{directory.path}.away")
        os.symlink(f"{directory.path}.away", directory.path)
        assert not directory.is_own

    def test_changed_record_is_imported(self, directory: RunDirectory) -> None:
        record = Path(directory.file(RECORD))
        status = record.stat()
        record.write_bytes(record.read_bytes().replace(b"hello.py", b"hallo.py"))
        os.utime(record, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert not directory.is_own

    @pytest.mark.system
    def test_record_of_another_user_is_imported(self, directory: RunDirectory) -> None:
        require_root("to give files away")
        os.chown(directory.path, 65534, 65534)
        assert not directory.is_own

    def test_registry_entry_writable_by_others_is_ignored(self, directory: RunDirectory) -> None:
        (entry,) = Path(ownership.registry()).iterdir()
        entry.chmod(0o666)
        assert not directory.is_own

    def test_entries_of_removed_runs_are_pruned(self, project: Project, directory: RunDirectory) -> None:
        shutil.rmtree(directory.path)
        Runs(project).resume()
        assert list(Path(ownership.registry()).iterdir()) == []

    def test_entry_of_a_run_being_created_is_kept(self, project: Project) -> None:
        """A project may be opened while another process submits a run."""
        os.makedirs(project.runs_directory, mode=0o700)
        with new_directory(project, "20260101-000000-hello") as (folder, lock):
            Runs(project).resume()
            lock.release()
        record = os.path.join(project.runs_directory, "20260101-000000-hello", RECORD)
        assert ownership.is_claimed(folder.path, record)

    def test_run_folders_are_private_to_the_user(self, project: Project, directory: RunDirectory) -> None:
        for path in (project.state_directory, project.runs_directory, directory.path, ownership.registry()):
            assert os.stat(path).st_mode & 0o777 == 0o700, path


class TestTakingOver:
    """`experiment resume --run ID` of an imported run."""

    def test_resume_shows_commands_and_needs_consent(self, hostile: Hostile) -> None:
        before = fingerprint(hostile.root)
        done = Workbench(hostile.root).run("experiment", "resume", "--run", "1")
        assert done.code == 2
        assert "hello.py" in done.err
        assert "--yes" in done.err
        assert fingerprint(hostile.root) == before

    def test_run_continues_with_consent(self, hostile: Hostile) -> None:
        workbench = Workbench(hostile.root)
        assert workbench.run("experiment", "resume", "--run", "1", "--yes").code == 0
        assert workbench.run("logs", "-f", "1").code == 0
        assert hostile.runs["queued"].run().state == "completed"
        assert hostile.canary.exists()

    def test_record_is_rewritten_and_private(self, hostile: Hostile) -> None:
        directory = hostile.runs["queued"]
        os.chmod(directory.path, 0o777)
        with Path(directory.file("events.jsonl")).open("a") as file:
            file.write('{"event": "note", "text": "planted"}\n')
        Runs(Project(str(hostile.root))).take_over_imported(directory.run_id)
        assert directory.is_own
        assert [event["event"] for event in directory.events()] == ["state"]
        assert os.stat(directory.path).st_mode & 0o777 == 0o700

    def test_run_that_may_have_started_is_refused(self, hostile: Hostile) -> None:
        def assert_refused() -> None:
            before = fingerprint(hostile.root)
            with pytest.raises(ImportedRun, match="experiment rerun"):
                runs.take_over_imported(hostile.runs["queued"].run_id)
            assert fingerprint(hostile.root) == before

        runs, folder = Runs(Project(str(hostile.root))), Path(hostile.runs["queued"].path)
        for name in ("pid", "exit", "cancel", "output.log", "gpus", "anything", "outputs/model"):
            write_files(folder, {name: "1\n"})
            assert_refused()
            (folder / name).unlink()
        (folder / "outputs").rmdir()
        events = Path(hostile.runs["queued"].file("events.jsonl"))
        before = events.read_bytes()
        for event in ({"event": "state", "state": "running"}, {"event": "step", "step": "start"}):
            hostile.runs["queued"].append_event(**event)
            assert_refused()
            events.write_bytes(before)
        runs.take_over_imported(hostile.runs["queued"].run_id)  # without these changes
        assert hostile.runs["queued"].is_own

    def test_run_with_the_id_of_an_own_run_is_refused(self, hostile: Hostile, tmp_path: Path) -> None:
        own = Project(str(write_project(tmp_path / "own" / "project")))
        directory, lock, _ = create_run(own, REQUEST)
        lock.release()
        imported = hostile.runs["queued"]
        record = json.loads(Path(imported.file(RECORD)).read_text())
        record["run_id"] = directory.run_id
        Path(imported.file(RECORD)).write_text(json.dumps(record))
        os.rename(imported.path, Path(imported.path).parent / directory.run_id)
        assert_refused(hostile)

    def test_forged_pid_file_ends_no_process(self, hostile: Hostile, bystander: Bystander) -> None:
        Path(hostile.runs["queued"].file("pid")).write_text(
            f"{bystander.pid}\n{boot_id()}\n{Path(f'/proc/{bystander.pid}/stat').read_text()}"
        )
        workbench = Workbench(hostile.root)
        workbench.run("experiment", "resume", "--run", "1", "--yes")
        workbench.run("experiment", "cancel", "--run", "1")
        assert bystander.poll() is None

    def test_forged_lock_file_ends_no_process(self, hostile: Hostile, bystander: Bystander) -> None:
        with Path(hostile.runs["queued"].file("controller.lock")).open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(f"{bystander.pid:<11}\n")
            file.flush()
            workbench = Workbench(hostile.root)
            assert workbench.run("experiment", "resume", "--run", "1", "--yes").code == 0
            workbench.run("experiment", "cancel", "--run", "1")
        assert bystander.poll() is None
        assert hostile.runs["queued"].status().end


def assert_refused(hostile: Hostile) -> None:
    before = fingerprint(hostile.root)
    done = Workbench(hostile.root).run("experiment", "resume", "--run", "1", "--yes")
    assert done.code == 2
    assert "experiment rerun" in done.err
    assert fingerprint(hostile.root) == before
    assert not hostile.canary.exists()


@pytest.mark.tmux
def test_screens_execute_and_change_nothing(hostile: Hostile, home: Path) -> None:
    before = fingerprint(hostile.root, hostile.victim)
    name = f"{os.getpid()}-hostile"
    command = workbench_command(str(hostile.root))
    with Tmux(command, size=(120, 36), name=name, environment={"HOME": str(home)}) as terminal:
        terminal.until_text("1 Files", "hello.py", "2 Compute targets", "5 Jobs", "imported")
        terminal.press("6")
        terminal.until_text("Details", "Mark", "unknown")
        terminal.press("Enter")
        terminal.until_text("Snapshot", "Environment", "imported: not submitted by you on this machine")
        terminal.press("Escape")
        terminal.until_text("Details", "Mark")
        terminal.press("Escape")
        terminal.until_text("1 Files", "5 Jobs")
        terminal.press("q")
        terminal.until_text("left-with-0")
    assert fingerprint(hostile.root, hostile.victim) == before
    assert not hostile.canary.exists()


@pytest.mark.tmux
@pytest.mark.parametrize("kind", ["sparse", "device", "nested", "numbers"])
def test_screens_show_runs_with_huge_or_special_files(hostile: Hostile, home: Path, kind: str) -> None:
    hostile.plant(kind)
    name = f"{os.getpid()}-planted"
    command = workbench_command(str(hostile.root))
    with Tmux(command, size=(120, 36), name=name, environment={"HOME": str(home)}) as terminal:
        terminal.until_text("1 Files", "hello.py", "5 Jobs")
        terminal.press("6")
        terminal.until_text("Details", "Mark", "unknown")
        terminal.press("Enter")
        terminal.until_text("Snapshot", "Environment")
        terminal.press("Escape")
        terminal.until_text("Details", "Mark")
        terminal.press("Escape")
        terminal.until_text("1 Files", "5 Jobs")
        terminal.press("q")
        terminal.until_text("left-with-0")
