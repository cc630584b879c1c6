"""Ended runs that their user starts again: `experiment resume -r ID`."""

from __future__ import annotations

import errno
import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.support import Workbench, controller_of, is_running, until
from tests.proc import PROC
from tui_workbench.core.causes import exit_causes
from tui_workbench.core.errors import StorageError
from tui_workbench.runs.lifecycle.deferred_copy import restore_copy
from tui_workbench.runs.lifecycle.retrying import add_attempt
from tui_workbench.runs.store.rundir import Ending, RunDirectory

if TYPE_CHECKING:
    from collections.abc import Callable

GROWS = """\
import os, pathlib, sys
attempt = os.environ.get("WORKBENCH_ATTEMPT", "1")
print("attempt", attempt, os.environ.get("WORKBENCH_RESUME", "fresh"), flush=True)
for path in (pathlib.Path("outputs/checkpoint"), pathlib.Path("state/checkpoint")):
    path.parent.mkdir(exist_ok=True)
    seen = path.read_text() if path.exists() else ""
    path.write_text(seen + attempt)
sys.exit(0 if seen == "12" else 3)
"""
"""Succeeds in the third attempt, if both checkpoints of the others are still there."""

LOG = "attempt 1 fresh\nattempt 2 1\nattempt 3 1\n"

SLOW = "import time\nprint('began', flush=True)\nwhile True: time.sleep(0.05)\n"


@pytest.fixture
def workbench(project_root: Path) -> Workbench:
    return Workbench(project_root)


def track(workbench: Workbench) -> None:
    path = workbench.folder / "aml_config" / "local.runconfig"
    path.write_text(path.read_text().replace("TrackedRun: false\n", "") + "TrackedRun: true\n")


def resume(workbench: Workbench, run_id: str) -> None:
    result = workbench.run("experiment", "resume", "--run", run_id)
    assert result.code == 0, result
    until(lambda: workbench.info(run_id)["end_time_utc"])


def resume_until_completed(workbench: Workbench, configuration: str) -> str:
    """Run GROWS, and start it again twice. Return the run ID."""
    workbench.write(GROWS)
    assert workbench.submit("train.py", configuration=configuration).code == 3
    (record,) = workbench.history()
    run_id: str = record["run_id"]
    for _ in range(2):
        resume(workbench, run_id)
    assert workbench.log(run_id) == LOG
    assert workbench.status(run_id) == "Completed"
    assert (workbench.run_directory(run_id) / "outputs" / "checkpoint").read_text() == "123"
    return run_id


@pytest.mark.processes
@pytest.mark.parametrize("is_tracked", [True, False])
def test_failed_run_continues_from_its_checkpoint(workbench: Workbench, *, is_tracked: bool) -> None:
    if is_tracked:
        track(workbench)
    workbench.write(GROWS)
    assert workbench.submit("train.py").code == 3
    (record,) = workbench.history()
    run_id = record["run_id"]
    workbench.write("print('another script')" if is_tracked else GROWS)
    resume(workbench, run_id)
    assert workbench.info(run_id)["reason"] == "attempt 2: exit code 3"
    resume(workbench, run_id)
    assert workbench.log(run_id) == LOG
    info = workbench.info(run_id)
    assert (info["status"], info["exit_code"]) == ("Completed", 0)
    assert [each["status"] for each in info["attempts"]] == ["Failed", "Failed", "Completed"]
    (listed,) = workbench.history()
    assert listed["status"] == "Completed"
    top = workbench.run_directory(run_id) if is_tracked else workbench.folder
    state = top / "work" if is_tracked else top
    assert (top / "outputs" / "checkpoint").read_text() == "123"
    assert (state / "state" / "checkpoint").read_text() == "123"
    assert not (state / "train.py").exists() or not is_tracked


@pytest.mark.processes
def test_start_does_not_wait_for_the_records_of_attempts(workbench: Workbench) -> None:
    """The records cannot be written, because there is a file in place of their folder."""
    workbench.write("raise SystemExit(3)")
    workbench.submit("train.py")
    (record,) = workbench.history()
    folder = workbench.run_directory(record["run_id"]) / "attempts"
    folder.write_bytes(b"")
    resume(workbench, record["run_id"])
    assert workbench.info(record["run_id"])["reason"] == "attempt 2: exit code 3"
    folder.unlink()
    resume(workbench, record["run_id"])
    assert sorted(os.listdir(folder)) == ["1", "2", "3"]


@pytest.mark.processes
def test_canceled_run_starts_again(workbench: Workbench) -> None:
    workbench.write(SLOW)
    run_id = workbench.detach("train.py")
    until(lambda: "began" in workbench.log(run_id))
    workbench.run("experiment", "cancel", "--run", run_id)
    assert workbench.run("experiment", "resume", "--run", run_id).code == 0
    until(lambda: workbench.log(run_id) == "began\n" * 2)
    workbench.until_status(run_id, "Running")
    workbench.run("experiment", "cancel", "--run", run_id)
    assert workbench.info(run_id)["attempts"][1]["status"] == "Canceled"


@pytest.mark.processes
def test_lost_run_starts_again(workbench: Workbench) -> None:
    workbench.write(SLOW)
    run_id = workbench.detach("train.py")
    until(lambda: "began" in workbench.log(run_id))
    shell = int((workbench.run_directory(run_id) / "pid").read_text().split()[0])
    (script,) = (PROC / f"{shell}/task/{shell}/children").read_text().split()
    for pid in (shell, int(script)):
        os.kill(pid, signal.SIGKILL)
    until(lambda: workbench.info(run_id)["end_time_utc"])
    workbench.write("print('ended')")
    resume(workbench, run_id)
    assert workbench.status(run_id) == "Completed"


@pytest.mark.processes
def test_new_controller_continues_a_run_that_was_started_again(workbench: Workbench) -> None:
    workbench.write("raise SystemExit(3)")
    workbench.submit("train.py")
    (record,) = workbench.history()
    run_id = record["run_id"]
    workbench.write(SLOW)
    workbench.run("experiment", "resume", "--run", run_id)
    until(lambda: "began" in workbench.log(run_id))
    controller = controller_of(workbench.run_directory(run_id))
    os.kill(controller, signal.SIGKILL)
    until(lambda: not is_running(controller))
    assert workbench.run("experiment", "resume").code == 0
    assert workbench.log(run_id) == "began\n"
    workbench.run("experiment", "cancel", "--run", run_id)
    assert workbench.status(run_id) == "Canceled"


def test_retry_counts_anew_after_the_user_started_the_run_again(workbench: Workbench) -> None:
    path = workbench.folder / "aml_config" / "local.runconfig"
    path.write_text(f"{path.read_text()}Retry: {{times: 1, delay: 0}}\n")
    workbench.write("raise SystemExit(3)")
    workbench.submit("train.py")
    (record,) = workbench.history()
    resume(workbench, record["run_id"])
    assert workbench.info(record["run_id"])["reason"] == "attempt 4: exit code 3"


def test_run_that_starts_again_waits_for_its_place(workbench: Workbench) -> None:
    compute = workbench.folder / "aml_config" / "local.compute"
    compute.write_text(f"{compute.read_text()}maxConcurrentRuns: 1\n")
    workbench.write("raise SystemExit(3)")
    workbench.submit("train.py")
    (record,) = workbench.history()
    run_id = record["run_id"]
    workbench.write(SLOW, "slow.py")
    slow = workbench.detach("slow.py")
    until(lambda: "began" in workbench.log(slow))
    assert workbench.run("experiment", "resume", "--run", run_id).code == 0
    until(lambda: workbench.info(run_id)["reason"] == "waits for slow.py [2] on local")
    assert workbench.status(run_id) == "Queued"
    workbench.run("experiment", "cancel", "--run", slow)
    until(lambda: workbench.info(run_id)["reason"] == "attempt 2: exit code 3")


def test_run_of_another_user_is_refused(workbench: Workbench, tmp_path: Path) -> None:
    workbench.write("raise SystemExit(3)")
    workbench.submit("train.py")
    (record,) = workbench.history()
    other = Workbench(workbench.folder, {"XDG_STATE_HOME": str(tmp_path / "other")})
    result = other.run("experiment", "resume", "--run", record["run_id"])
    result.error(2, "was not submitted by you on this machine, so it cannot be started again", "experiment rerun")


def test_completed_run_is_refused(workbench: Workbench) -> None:
    workbench.write("print('done')")
    workbench.submit("train.py")
    (record,) = workbench.history()
    result = workbench.run("experiment", "resume", "--run", record["run_id"])
    result.error(2, "has completed", f"experiment rerun -r {record['run_id']}")


def test_interrupted_restoring_of_the_working_copy_is_repeated(workbench: Workbench) -> None:
    """The working copy was moved away, and the process was killed before it made the new one."""
    track(workbench)
    workbench.write(GROWS)
    workbench.submit("train.py")
    (record,) = workbench.history()
    directory = RunDirectory(str(workbench.run_directory(record["run_id"])))
    os.rename(directory.file("work"), directory.file("earlier"))
    (Path(directory.path) / "copy").write_bytes(b"")
    for _ in range(2):
        restore_copy(directory, directory.own_record())
        assert Path(directory.file("work/train.py")).read_text() == GROWS
        assert Path(directory.file("work/outputs/checkpoint")).read_text() == "1"
        assert Path(directory.file("work/state/checkpoint")).read_text() == "1"
    assert not Path(directory.file("earlier")).exists()
    resume(workbench, record["run_id"])
    info = json.loads(workbench.run("experiment", "status", "-r", record["run_id"]).out)
    assert [each["exit_code"] for each in info["attempts"]] == [3, 3]


def test_canceled_restoring_of_the_working_copy_is_continued(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Restoring failed between two files, and then the run was canceled."""
    track(workbench)
    workbench.write("for name in ('first', 'second'): open(name, 'a').write('x')\nraise SystemExit(3)")
    workbench.submit("train.py")
    (record,) = workbench.history()
    directory = RunDirectory(str(workbench.run_directory(record["run_id"])))
    add_attempt(directory, Ending("failed", exit_causes(3)), anew=True)
    monkeypatch.setattr(os, "rename", fail_at_last(os.rename, "first", "second"))
    with pytest.raises(StorageError):
        restore_copy(directory, directory.own_record())
    workbench.run("experiment", "cancel", "--run", record["run_id"])
    assert workbench.status(record["run_id"]) == "Canceled"
    resume(workbench, record["run_id"])
    assert workbench.info(record["run_id"])["reason"] == "attempt 3: exit code 3"
    assert [Path(directory.file(f"work/{name}")).read_text() for name in ("first", "second")] == ["xx", "xx"]
    assert not Path(directory.file("earlier")).exists()


def test_unreadable_folder_is_not_removed(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    track(workbench)
    workbench.write(GROWS)
    workbench.submit("train.py")
    (record,) = workbench.history()
    directory = RunDirectory(str(workbench.run_directory(record["run_id"])))
    monkeypatch.setattr(os, "open", fail_at_last(os.open, "state"))
    with pytest.raises(StorageError):
        restore_copy(directory, directory.own_record())
    assert Path(directory.file("earlier/state/checkpoint")).read_text() == "1"
    restore_copy(directory, directory.own_record())
    assert Path(directory.file("work/state/checkpoint")).read_text() == "1"


def fail_at_last(function: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """Return the function; its first call for the last of these files raises PermissionError."""
    left = set(names)

    def call(path: Any, *arguments: Any, **options: Any) -> Any:
        if path in left:
            left.remove(path)
            if not left:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return function(path, *arguments, **options)

    return call


def test_link_in_place_of_a_folder_is_not_followed(workbench: Workbench, tmp_path: Path) -> None:
    """The run replaced a folder of its snapshot by a link to a folder outside."""
    track(workbench)
    (workbench.folder / "data").mkdir()
    (workbench.folder / "data" / "small").write_text("of the project")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "small").write_text("of another user")
    replaces = f"import os, shutil; shutil.rmtree('data'); os.symlink({str(outside)!r}, 'data'); raise SystemExit(3)"
    workbench.write(replaces)
    workbench.submit("train.py")
    (record,) = workbench.history()
    directory = RunDirectory(str(workbench.run_directory(record["run_id"])))
    restore_copy(directory, directory.own_record())
    assert os.readlink(directory.file("work/data")) == str(outside)
    assert (outside / "small").read_text() == "of another user"
