"""`project restore`, `project create` and `project add`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.support import Installed
from tests.faults.support import is_running
from tests.runs.support import write_configuration, write_files
from tests.waiting import wait_until
from tui_workbench.ui.session_state import save_session, session_path


@pytest.fixture
def workbench(project_root: Path) -> Installed:
    write_configuration(project_root, TrackedRun=True)
    return Installed(project_root)


RESTORE = ("project", "restore")


def test_restore_lists_changes_and_can_be_undone(workbench: Installed) -> None:
    workbench.submit("hello.py")
    write_files(workbench.folder, {"hello.py": "print('new')", "new\x1b.txt": "x"})
    dry = workbench.run(*RESTORE, "--run-id", "1", "--dry-run")
    assert dry.out == "changed hello.py\nremoved new␛.txt\n2 files would change.\n"
    assert (workbench.folder / "hello.py").read_text() == "print('new')"
    done = workbench.run(*RESTORE, "--run-id", "1")
    assert done.out.endswith("2 files changed. Undo: workbench-tui project restore --undo\n")
    assert (workbench.folder / "hello.py").read_text() == 'print("hello")\n'
    assert workbench.run(*RESTORE, "--run-id", "1").out.startswith("The project is identical to project_")
    assert workbench.run(*RESTORE, "--undo", "--dry-run").out.endswith("2 files would change.\n")
    undone = json.loads(workbench.run(*RESTORE, "--undo", "-o", "json").out)
    assert undone["restored"].startswith("the state before the restore of project_")
    assert undone["changes"] == [{"kind": "changed", "path": "hello.py"}, {"kind": "added", "path": "new\x1b.txt"}]
    assert (workbench.folder / "hello.py").read_text() == "print('new')"


def test_restore_that_leaves_files_does_not_say_identical(workbench: Installed) -> None:
    write_files(workbench.folder, {"notes.txt": "x"})
    workbench.submit("hello.py")
    (workbench.folder / "notes.txt").unlink()
    os.mkfifo(workbench.folder / "notes.txt")
    dry = workbench.run(*RESTORE, "--run-id", "1", "--dry-run").out
    assert dry.startswith("left    notes.txt")
    assert dry.endswith("\nNo file would change.\n")
    assert workbench.run(*RESTORE, "--run-id", "1").out.endswith("\nNo file was changed.\n")


def test_restore_reports_mistakes(workbench: Installed) -> None:
    workbench.run(*RESTORE).error(2, "either --run-id or --undo")
    workbench.run(*RESTORE, "--undo").error(2, "no restore to undo")
    workbench.run(*RESTORE, "--run-id", "1").error(2, "no run '1'")


@pytest.mark.processes
def test_folder_is_copied_or_added_as_project(tmp_path: Path) -> None:
    workbench = Installed(tmp_path)
    write_files(tmp_path, {"old/train.py": "x"})
    made = json.loads(workbench.bytes_of("project", "create", "new", "--from", "old"))
    assert made == {"name": "new", "path": str(tmp_path / "new"), "template": "old"}
    assert (tmp_path / "new" / "train.py").read_text() == "x"
    added = json.loads(workbench.bytes_of("project", "add", "old"))
    assert (added["name"], added["run_configurations"]) == ("old", ["docker", "docker-gpu", "local"])
    assert json.loads(workbench.bytes_of("project", "add", "old"))["added"] == []
    workbench.run("project", "create", "x1", "--template-url", "file:///nowhere").error(
        1, "cannot clone file:///nowhere"
    )


def test_clone_tells_whether_the_folder_is_a_project(workbench: Installed, tmp_path: Path) -> None:
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@example.org")
    for words in (("init", "-q"), ("add", "hello.py"), ("commit", "-qm", "x")):
        subprocess.run([*git, *words], cwd=workbench.folder, check=True)
    url = f"file://{workbench.folder}"
    made = json.loads(workbench.bytes_of("project", "clone", url, str(tmp_path / "copy")))
    assert made == {"name": "copy", "path": str(tmp_path / "copy"), "url": url, "is_project": False}
    workbench.run("project", "clone", "ext::sh").error(2, "is not the URL of a repository")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_signal_stops_git_and_removes_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    # A stand-in for a server that stops sending.
    programs, target, pid = tmp_path / "programs", tmp_path / "target", tmp_path / "pid"
    write_files(programs, {"git": '#!/bin/sh\necho $$ > "$PID.new"\nmv "$PID.new" "$PID"\nexec sleep 600\n'})
    (programs / "git").chmod(0o755)
    target.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("PID", str(pid))
    with Installed(target).start("project", "clone", "https://localhost/x") as process:
        wait_until(pid.exists)
        assert len(os.listdir(target)) == 1
        process.send_signal(number)
    assert process.returncode == 128 + number
    assert os.listdir(target) == []
    wait_until(lambda: not is_running(int(pid.read_text())), "git to end")  # another process may have to collect it


def test_recent_projects_have_the_time_of_their_last_use(workbench: Installed) -> None:
    save_session(str(workbench.folder), {})
    os.utime(session_path(str(workbench.folder)), (0, 0))
    recent = json.loads(workbench.bytes_of("project", "recent"))
    assert recent == [{"name": "project", "path": str(workbench.folder), "used": "1970-01-01T00:00:00Z"}]
