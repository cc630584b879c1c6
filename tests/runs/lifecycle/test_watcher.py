"""One watcher drives all runs of a target that asks for it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests import rings
from tests.conftest import REPOSITORY
from tests.faults.support import Workbench, is_running, until
from tests.runs.gated_project import kill, watchers
from tests.runs.support import write_configuration, write_files
from tests.targets.fake_cluster import NAME
from tui_workbench.core import target_types
from tui_workbench.core.model import Run, RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.lifecycle.handover import FOLDER
from tui_workbench.runs.store.rundir import CONTROLLER_LOCK, ControllerLock, RunDirectory

pytestmark = pytest.mark.processes

NOTE = """\
import os, sys
with open(sys.argv[1], "ab", buffering=0) as file:
    file.write((os.environ["AZUREML_RUN_ID"] + "\\n").encode())
print("done")
sys.exit(int(sys.argv[2]))
"""

GATED = """\
import os, sys
print(os.getpid(), flush=True)
with open(sys.argv[1]) as gate:
    gate.read()
"""


ENTRY_POINT = f"[{target_types.ENTRY_POINT_GROUP}]\n{NAME} = tests.targets.fake_cluster:FakeCluster\n"


def install(monkeypatch: pytest.MonkeyPatch, site: Path) -> None:
    """Make the type known to this process and its children."""
    write_files(
        site,
        {
            f"{NAME}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n",
            f"{NAME}-1.0.dist-info/entry_points.txt": ENTRY_POINT,
        },
    )
    monkeypatch.setenv("PYTHONPATH", f"{site}:{REPOSITORY}")
    monkeypatch.syspath_prepend(str(site))
    target_types.forget_installed()


def configure(root: Path, folder: Path) -> None:
    """Write a target for the cluster in `folder`, and a run configuration of the same name, into a project."""
    folder.mkdir()
    write_configuration(root, NAME, suffix="compute", type=NAME, address=str(folder), pythonLocation="python")
    write_configuration(root, NAME, Target=NAME)


class Cluster:
    """A project whose runs go to a fake cluster."""

    def __init__(self, project: Project, folder: Path) -> None:
        self.root = Path(project.root)
        self.runs = Runs(project)
        self.folder = folder
        self.notes = folder / "notes"
        self.gate = folder / "gate"
        configure(self.root, folder)
        os.mkfifo(self.gate)
        write_files(self.root, {"note.py": NOTE, "gated.py": GATED})

    def submit(self, code: int = 0) -> Run:
        return self.runs.submit(RunRequest(NAME, "note.py", (str(self.notes), str(code))))

    def submit_gated(self) -> Run:
        """Submit a run whose script waits until it is canceled."""
        return self.runs.submit(RunRequest(NAME, "gated.py", (str(self.gate),)))

    def watcher(self) -> int:
        """Return the process ID of the watcher, 0 without one."""
        return next(iter(self.watchers()), 0)

    def watchers(self) -> list[int]:
        return watchers()

    def ended(self, run: Run) -> Run:
        directory = RunDirectory(run.directory)
        until(lambda: directory.status().end, f"the end of {run.run_id}")
        return directory.run()

    def until_state(self, run: Run, state: str) -> Run:
        directory = RunDirectory(run.directory)
        until(lambda: directory.status().state == state, f"{run.run_id} {state}")
        return directory.run()

    def script(self, run: Run) -> int:
        """Return the process ID of a gated script."""
        log = Path(run.log_path)
        return int(until(lambda: log.exists() and log.read_text().partition("\n")[0], "the script"))

    def times_run(self) -> list[str]:
        return self.notes.read_text().split() if self.notes.exists() else []


@pytest.fixture
def cluster(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    install(monkeypatch, tmp_path / "site")
    cluster = Cluster(project, tmp_path / "cluster")
    yield cluster
    for name in ("down", "broken"):
        (cluster.folder / name).unlink(missing_ok=True)
    for run in cluster.runs.list():
        if run.is_active:
            cluster.runs.cancel(run.run_id, grace=0)
    for pid in cluster.watchers():
        kill(pid)
    target_types.forget_installed()


def test_run_ends_with_its_exit_code_and_log(cluster: Cluster) -> None:
    run = cluster.ended(cluster.submit(7))
    assert (run.state, run.exit_code, run.reason) == ("failed", 7, "exit code 7")
    assert Path(run.log_path).read_text() == "done\n"
    assert cluster.times_run() == [run.run_id]


def test_tracked_run_gets_its_copy_environment_and_provenance(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.until_state(cluster.submit_gated(), "running")  # the watcher has the environment of this submit
    write_configuration(cluster.root, NAME, Target=NAME, TrackedRun=True)
    write_files(cluster.root, {"show.py": "import os; print(os.environ.get('LATER'), os.getcwd())\n"})
    monkeypatch.setenv("LATER", "set")
    run = cluster.ended(cluster.runs.submit(RunRequest(NAME, "show.py")))
    assert Path(run.log_path).read_text() == f"set {run.directory}/work\n"
    until(Path(run.directory, "provenance.json").exists, "the provenance")
    assert not Path(run.directory, "environment.json").exists()


def test_command_line_submits_and_follows(cluster: Cluster) -> None:
    result = Workbench(cluster.root).submit("note.py", str(cluster.notes), "3", configuration=NAME)
    assert result.code == 3, result
    assert result.out.endswith("\ndone\n")


def test_one_process_drives_many_runs(cluster: Cluster) -> None:
    runs = [cluster.submit_gated() for _ in range(12)]
    for run in runs:
        cluster.until_state(run, "running")
    holders = {ControllerLock.holder(RunDirectory(run.directory)) for run in runs}
    assert holders == {cluster.watcher()}


def test_sixty_runs_end(cluster: Cluster) -> None:
    runs = [cluster.submit(number % 3) for number in range(60)]
    for number, run in enumerate(runs):
        assert cluster.ended(run).exit_code == number % 3
    assert sorted(cluster.times_run()) == sorted(run.run_id for run in runs)
    assert len(cluster.watchers()) <= 1


def test_cancel_ends_one_run_of_many(cluster: Cluster) -> None:
    runs = [cluster.submit_gated() for _ in range(5)]
    for run in runs:
        cluster.until_state(run, "running")
    assert cluster.runs.cancel(runs[2].run_id).state == "canceled"
    assert [RunDirectory(run.directory).status().state for run in runs].count("running") == 4


def test_queued_run_shows_the_reason_and_can_be_canceled(cluster: Cluster) -> None:
    (cluster.folder / "hold").touch()
    run = cluster.submit()
    directory = RunDirectory(run.directory)
    until(lambda: directory.status().reason == "Priority", "the reason")
    assert directory.run().state == "queued"
    assert cluster.runs.cancel(run.run_id).state == "canceled"
    assert cluster.times_run() == []


def test_killed_watcher_is_replaced_by_a_reader(cluster: Cluster) -> None:
    runs = [cluster.submit_gated() for _ in range(4)]
    scripts = [cluster.until_state(run, "running") for run in runs]
    before = cluster.watcher()
    kill(before)
    assert cluster.runs.list(adopt=True)
    for run in scripts:
        until(partial(ControllerLock.holder, RunDirectory(run.directory)), "a watcher")
    assert {ControllerLock.holder(RunDirectory(run.directory)) for run in runs} == {cluster.watcher()}
    assert cluster.watcher() != before
    assert cluster.runs.cancel(runs[0].run_id).state == "canceled"


def test_submit_replaces_a_killed_watcher_for_all_runs(cluster: Cluster) -> None:
    run = cluster.submit_gated()
    cluster.until_state(run, "running")
    kill(cluster.watcher())
    cluster.ended(cluster.submit())
    assert until(lambda: ControllerLock.holder(RunDirectory(run.directory)), "a controller") == cluster.watcher()


def test_submit_waits_for_the_lock_of_a_killed_watcher(cluster: Cluster) -> None:
    """A child that the watcher was starting when it was killed holds the lock for a moment."""
    cluster.ended(cluster.submit())
    killed = cluster.watcher()
    kill(killed)
    (file,) = Path(os.environ["HOME"], ".local", "state", "workbench-tui", FOLDER).glob(f"*/{CONTROLLER_LOCK}")
    lock = until(lambda: ControllerLock.acquire_new(RunDirectory(str(file.parent))), "the lock")
    lock.sign(killed)
    with ThreadPoolExecutor() as pool:
        submitted = pool.submit(cluster.submit)
        until(lambda: any((file.parent / "runs").iterdir()), "the submitted run")
        lock.release()
        cluster.ended(submitted.result())


@pytest.mark.soak
def test_watcher_killed_at_any_moment_loses_no_run(cluster: Cluster) -> None:
    runs = []
    moments = 10 * rings.REPEATS
    for attempt in range(moments):
        runs += [cluster.submit(attempt % 3), cluster.submit(attempt % 3)]
        time.sleep(attempt / moments)  # not a wait: the test is about this moment
        pid = cluster.watcher()
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    until(lambda: not is_running(pid))
    cluster.runs.resume()
    for number, run in enumerate(runs):
        ended = cluster.ended(run)
        assert (ended.state, ended.exit_code) == ("failed" if number // 2 % 3 else "completed", number // 2 % 3)
        assert Path(ended.log_path).read_text() == "done\n"
    assert sorted(cluster.times_run()) == sorted(run.run_id for run in runs)


def test_watcher_ends_after_its_last_run(cluster: Cluster) -> None:
    cluster.ended(cluster.submit())
    pid = cluster.watcher()
    until(lambda: not is_running(pid), "the end of the watcher")
    assert cluster.ended(cluster.submit()).state == "completed"


def test_runs_of_two_projects_share_a_watcher(cluster: Cluster, tmp_path: Path) -> None:
    shutil.copytree(cluster.root, tmp_path / "other", ignore=shutil.ignore_patterns(".workbench"))
    other = Runs(Project.find(str(tmp_path / "other")))
    runs = [cluster.submit_gated(), other.submit(RunRequest(NAME, "gated.py", (str(cluster.gate),)))]
    for run in runs:
        cluster.until_state(run, "running")
    assert {ControllerLock.holder(RunDirectory(run.directory)) for run in runs} == {cluster.watcher()}
    assert other.cancel(runs[1].run_id).state == "canceled"


def test_removed_run_does_not_affect_others(cluster: Cluster) -> None:
    removed, run = cluster.submit_gated(), cluster.submit_gated()
    script = cluster.script(removed)
    shutil.rmtree(removed.directory)
    os.kill(script, signal.SIGKILL)
    assert cluster.runs.cancel(run.run_id).state == "canceled"
    pid = cluster.watcher()
    until(lambda: not is_running(pid), "the end of the watcher")


def test_runs_wait_while_the_cluster_does_not_answer(cluster: Cluster) -> None:
    first = cluster.submit_gated()
    cluster.until_state(first, "running")
    (cluster.folder / "down").touch()
    cluster.until_state(first, "unknown")
    (cluster.folder / "down").unlink()
    cluster.until_state(first, "running")
    assert cluster.runs.cancel(first.run_id).state == "canceled"


def test_cancel_waits_for_the_cluster(cluster: Cluster) -> None:
    run = cluster.submit_gated()
    cluster.until_state(run, "running")
    (cluster.folder / "down").touch()
    RunDirectory(run.directory).request_cancel(0.0)
    cluster.until_state(run, "unknown")
    (cluster.folder / "down").unlink()
    assert cluster.runs.cancel(run.run_id).state == "canceled"


def test_run_is_canceled_before_the_cluster_was_reached(cluster: Cluster) -> None:
    (cluster.folder / "down").touch()
    run = cluster.submit_gated()
    cluster.until_state(run, "preparing")
    assert cluster.runs.cancel(run.run_id).state == "canceled"


def test_broken_group_is_opened_again(cluster: Cluster) -> None:
    run = cluster.submit_gated()
    cluster.until_state(run, "running")
    (cluster.folder / "broken").touch()
    directory = RunDirectory(run.directory)
    until(lambda: any("the group is broken" in str(event.get("reason")) for event in directory.events()), "an event")
    (cluster.folder / "broken").unlink()
    os.kill(cluster.script(run), signal.SIGKILL)
    assert cluster.ended(run).exit_code == 137
