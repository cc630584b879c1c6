"""The queue: runs start in order, within limits, even if processes are killed."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import write_project
from tests.faults.support import until
from tests.runs.support import REQUEST, write_configuration, write_files
from tui_workbench.core.directories import user_state_directory
from tui_workbench.core.errors import StorageError
from tui_workbench.core.model import ComputeTarget, Run, RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.lifecycle import limits, queueing
from tui_workbench.runs.store import ownership
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory
from tui_workbench.runs.submission.launch import create_run
from tui_workbench.runs.submission.planning import prepare

GATED = """\
import os, sys
print("began", os.environ.get("WHOSE"), os.environ.get("API_KEY"), flush=True)
with open(sys.argv[1]) as gate:
    gate.read()
"""


class Place:
    """A project whose target takes one run at a time, and whose script waits for a gate file."""

    def __init__(self, root: Path, *, limit: int = 1, tracked: bool = False) -> None:
        self.root = root
        write_project(root, tracked=tracked)
        self.limit(limit)
        write_files(root, {"gated.py": GATED, ".gitignore": "gate-*\n"})
        self.project = Project.find(str(root))
        self.runs = Runs(self.project)
        self.gates: dict[str, Path] = {}

    def limit(self, number: int) -> None:
        limit = number or None
        write_configuration(
            self.root, suffix="compute", type="local", pythonLocation=sys.executable, maxConcurrentRuns=limit
        )

    def submit(self) -> Run:
        gate = self.root / f"gate-{len(self.gates)}"
        os.mkfifo(gate)
        run = self.runs.submit(RunRequest("local", "gated.py", (str(gate),)))
        self.gates[run.run_id] = gate
        return run

    def state(self, run: Run) -> tuple[str, str]:
        now = RunDirectory(run.directory).run()
        return now.state, now.reason

    def is_going(self, run: Run) -> bool:
        log = Path(run.log_path)
        return log.exists() and log.read_text().startswith("began")

    def begins(self, run: Run) -> None:
        until(lambda: self.is_going(run), "its turn")

    def end(self, run: Run) -> None:
        """End an active run."""
        self.begins(run)
        self.gates[run.run_id].write_text("go")
        until(lambda: not RunDirectory(run.directory).run().is_active, "its end")

    def controller(self, run: Run) -> int:
        return int(until(lambda: max(0, ControllerLock.holder(RunDirectory(run.directory))), "a controller"))

    def kill_controller(self, run: Run) -> None:
        os.kill(self.controller(run), signal.SIGKILL)
        until(lambda: ControllerLock.holder(RunDirectory(run.directory)) == 0, "its death")

    def clear(self) -> None:
        for run in reversed(self.runs.list()):
            if run.is_active:
                self.runs.cancel(run.run_id, grace=0.0)
        until(
            lambda: all(ControllerLock.holder(RunDirectory(run.directory)) == 0 for run in self.runs.list(adopt=True)),
            "quiet",
        )


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path / "project")
    yield place
    place.clear()


def line() -> list[str]:
    """Return the links of queued or active runs."""
    folder = Path(user_state_directory(), "queue")
    return sorted(path.name for path in folder.rglob("*") if path.is_symlink())


@pytest.mark.processes
def test_runs_start_in_order_with_a_reason_to_wait(place: Place) -> None:
    first, second, third = place.submit(), place.submit(), place.submit()
    assert first.state == "running"
    assert place.state(second) == ("queued", "waits for gated.py [1] on local")
    assert place.state(third) == ("queued", "waits for gated.py [2] on local")
    place.end(first)
    place.begins(second)
    until(lambda: place.state(third)[1] == "waits for gated.py [2] on local", "the reason")
    assert not place.is_going(third)
    place.end(second)
    place.end(third)
    until(lambda: line() == [], "an empty line")
    assert [run.state for run in place.runs.list()] == ["completed"] * 3


@pytest.mark.processes
def test_wait_is_in_plan_and_events(place: Place) -> None:
    first, second = place.submit(), place.submit()
    step = RunDirectory(second.directory).read_record().plan.step("queue")
    assert step is not None
    assert step.title == "wait in the queue: 1 run at a time on local"
    place.end(first)
    place.begins(second)
    assert "queue" in RunDirectory(second.directory).status().done


@pytest.mark.processes
def test_limit_of_concurrent_runs_is_used(place: Place) -> None:
    place.limit(2)
    runs = [place.submit() for _ in range(4)]
    assert [place.state(run)[0] for run in runs] == ["running", "running", "queued", "queued"]
    assert place.state(runs[2])[1] == "waits for gated.py [1] or gated.py [2] on local"
    place.end(runs[1])
    place.begins(runs[2])
    assert place.state(runs[3])[0] == "queued"


@pytest.mark.processes
def test_canceled_queued_run_never_starts(place: Place) -> None:
    first, second, third = place.submit(), place.submit(), place.submit()
    canceled = place.runs.cancel(second.run_id)
    assert (canceled.state, canceled.reason) == ("canceled", "canceled before it started")
    until(lambda: place.state(third)[1] == "waits for gated.py [1] on local", "the reason")
    place.end(first)
    place.begins(third)
    assert not place.is_going(second)


@pytest.mark.processes
def test_raised_limit_starts_the_first_queued_run(place: Place) -> None:
    place.submit()
    second = place.submit()
    place.limit(2)
    third = place.submit()
    place.begins(second)
    assert place.state(third)[0] == "queued"


def test_runs_started_before_the_limit_count(place: Place) -> None:
    place.limit(0)
    first = place.submit()
    place.limit(1)
    second = place.submit()
    assert place.state(second) == ("queued", "waits for gated.py [1] on local")
    place.end(first)
    place.begins(second)


def test_without_a_limit_there_is_no_queue(place: Place) -> None:
    place.limit(0)
    run = place.submit()
    assert sorted({"queue.json", "waiting", "environment.json", "copy"} & set(os.listdir(run.directory))) == []
    assert not Path(user_state_directory(), "queue").exists()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Place, Place]]:
    places = Place(tmp_path / "one"), Place(tmp_path / "two")
    yield places
    for place in reversed(places):
        place.clear()


@pytest.mark.processes
def test_two_projects_share_a_target(two: tuple[Place, Place]) -> None:
    here, there = two
    first, second, third = here.submit(), there.submit(), here.submit()
    assert there.state(second) == ("queued", "waits for gated.py [1] on local")
    here.end(first)
    there.begins(second)
    assert here.state(third)[0] == "queued"
    there.end(second)
    here.begins(third)


@pytest.mark.processes
def test_project_without_processes_does_not_block_others(two: tuple[Place, Place]) -> None:
    """The other project's run ends after its controller was killed, and that project is never opened again."""
    here, there = two
    first, second = here.submit(), there.submit()
    here.begins(first)
    here.kill_controller(first)
    here.gates[first.run_id].write_text("go")
    until(lambda: there.runs.get(second.run_id, adopt=True).state == "running", "its turn")


@pytest.mark.processes
def test_removed_project_leaves_the_queue(two: tuple[Place, Place]) -> None:
    here, there = two
    first, second = here.submit(), there.submit()
    here.kill_controller(first)
    here.gates[first.run_id].write_text("go")

    def removed() -> bool:
        shutil.rmtree(here.root, ignore_errors=True)  # its script may still write there
        return not here.root.exists()

    until(removed, "the end of the project's folder")
    until(lambda: there.runs.get(second.run_id, adopt=True).state == "running", "its turn")


@pytest.mark.processes
def test_queue_survives_killed_processes(place: Place) -> None:
    first, second, third = place.submit(), place.submit(), place.submit()
    place.begins(first)
    shell = int(Path(first.directory, "pid").read_text().split()[0])
    place.kill_controller(first)
    os.killpg(shell, signal.SIGKILL)
    until(lambda: Runs(place.project).get(first.run_id, adopt=True).state == "unknown", "the end of the first")
    place.begins(second)
    place.end(second)
    place.begins(third)


def test_submitter_killed_before_queuing(place: Place) -> None:
    directory, lock, _ = create_run(place.project, REQUEST)
    lock.release()
    assert line() == []
    run = until(
        lambda: (now := Runs(place.project).get(directory.run_id, adopt=True)).state == "completed" and now, "its end"
    )
    assert Path(run.log_path).read_text() == "hello\n"


@pytest.mark.processes
def test_submitter_killed_between_dequeuing_and_start(place: Place) -> None:
    directory, lock, _ = create_run(place.project, REQUEST)
    assert queueing.enter(directory, lock, [])
    lock.release()
    until(lambda: Runs(place.project).get(directory.run_id, adopt=True).state == "completed", "its end")


@pytest.mark.processes
def test_runs_of_a_missing_machine_are_claimed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replaced container has another name; active runs of the old one are left alone."""
    first, second = place.submit(), place.submit()
    place.begins(first)
    real = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((real[0], "renamed", *real[2:])))
    assert Runs(place.project).get(second.run_id, adopt=True).state == "queued"
    place.kill_controller(first)
    place.gates[first.run_id].write_text("go")
    until(lambda: Runs(place.project).get(second.run_id, adopt=True).state == "running", "its turn")


def test_pending_cancel_request_is_executed(place: Place) -> None:
    place.submit()
    second = place.submit()
    RunDirectory(second.directory).request_cancel(0.0)
    until(lambda: place.runs.get(second.run_id, adopt=True).state == "canceled", "its end")


@pytest.mark.processes
def test_queued_run_gets_the_environment_without_secrets(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHOSE", "first")
    first = place.submit()
    monkeypatch.setenv("WHOSE", "second")
    monkeypatch.setenv("API_KEY", "s3cret")
    monkeypatch.setenv("DATABASE", "postgres://me:s3cret@host/db")
    second = place.submit()
    kept = Path(second.directory, "environment.json")
    assert kept.stat().st_mode & 0o077 == 0
    assert "s3cret" not in kept.read_text()
    place.end(first)
    place.begins(second)
    assert Path(second.log_path).read_text().startswith("began second")
    until(lambda: not kept.exists(), "no trace of it")


@pytest.mark.processes
def test_queued_run_uses_its_own_snapshot(tmp_path: Path) -> None:
    place = Place(tmp_path / "project", tracked=True)
    first, second = place.submit(), place.submit()
    write_files(place.root, {"gated.py": "raise SystemExit(9)"})
    assert not Path(second.directory, "work").exists()
    place.end(first)
    place.end(second)
    ended = RunDirectory(second.directory).run()
    assert (ended.state, ended.exit_code) == ("completed", 0)
    assert not Path(second.directory, "work", "gated.py").exists(), "what the run left unchanged was kept"


@pytest.mark.processes
def test_failed_copy_fails_the_run_and_starts_the_next(tmp_path: Path) -> None:
    place = Place(tmp_path / "project", tracked=True)
    first, second, third = place.submit(), place.submit(), place.submit()
    record = json.loads(Path(second.directory, "run.json").read_text())
    Path(second.directory, "run.json").write_text(json.dumps({**record, "commit_id": "0" * 40}))
    ownership.register(str(Path(second.directory, "run.json")))
    place.end(first)
    until(lambda: place.state(second)[0] == "failed", "its end")
    assert "failed in the snapshot repository" in place.state(second)[1]
    place.end(third)


@pytest.mark.processes
def test_targets_with_preparation_use_the_queue(tmp_path: Path) -> None:
    place = Place(tmp_path / "project", tracked=True)
    write_configuration(
        place.root,
        suffix="compute",
        type="local",
        pythonLocation=sys.executable,
        userManagedEnvironment=False,
        maxConcurrentRuns=1,
    )
    first, second = place.submit(), place.submit()
    assert place.state(second) == ("queued", "waits for gated.py [1] on local")
    place.end(first)
    place.end(second)
    assert [run.state for run in place.runs.list()] == ["completed", "completed"]


def test_unusable_queue_refuses_the_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(place.root / "hello.py"))
    with pytest.raises(StorageError, match="cannot register the run as yours: Not a directory"):
        place.submit()
    assert os.listdir(place.project.runs_directory) == []


@pytest.mark.processes
def test_concurrent_submits(place: Place) -> None:
    submit = ["-m", "tui_workbench", "experiment", "submit", "-c", "local", "--project", str(place.root), "hello.py"]
    processes = [subprocess.Popen([sys.executable, *submit], stdout=subprocess.PIPE) for _ in range(4)]
    for process in processes:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        assert out.splitlines()[1:] == [b"hello"]
    spans = sorted((run.start, run.end) for run in place.runs.list())
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


@pytest.mark.parametrize(
    ("target", "limit"),
    [
        (ComputeTarget("t", "", "local"), 0),
        (ComputeTarget("t", "", "local", max_concurrent_runs=3), 3),
        (ComputeTarget("t", "", "localdocker"), 0),
        (ComputeTarget("t", "", "remotedocker", nvidia_docker=True), 1),
        (ComputeTarget("t", "", "remotedocker", nvidia_docker=True, max_concurrent_runs=4), 4),
        (ComputeTarget("t", "", "remotedocker", nvidia_docker=True, max_concurrent_runs=0), 0),
    ],
)
def test_limit_of_a_target(target: ComputeTarget, limit: int) -> None:
    assert limits.limit_of(target) == limit


def test_local_gpu_target_takes_one_run_per_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = ComputeTarget("t", "", "localdocker", nvidia_docker=True)
    for gpus in (1, 2):
        (tmp_path / f"0000:0{gpus}").mkdir()
        monkeypatch.setattr(limits, "GPUS", str(tmp_path))
        assert limits.limit_of(target) == gpus
    monkeypatch.setattr(limits, "GPUS", str(tmp_path / "none"))
    assert limits.limit_of(target) == 1


@pytest.mark.parametrize(
    ("target", "processes", "places"),
    [
        (ComputeTarget("t", "", "localdocker", nvidia_docker=True), "", 1),
        (ComputeTarget("t", "", "localdocker", nvidia_docker=True), "2", 2),
        (ComputeTarget("t", "", "localdocker", nvidia_docker=True), "gpus", 4),
        (ComputeTarget("t", "", "localdocker", nvidia_docker=True), "9", 4),
        (ComputeTarget("t", "", "localdocker", nvidia_docker=True, gpus="2"), "2", 1),
        (ComputeTarget("t", "", "localdocker", nvidia_docker=True, max_concurrent_runs=4), "gpus", 1),
    ],
    ids=["alone", "two", "all", "more than all", "runs that are given two", "runs that are counted"],
)
def test_torchrun_takes_one_place_per_process(place: Place, target: ComputeTarget, processes: str, places: int) -> None:
    spec = prepare(place.project, RunRequest("local", "hello.py")).spec
    configuration = spec.run_configuration._replace(processes_per_node=processes)
    assert limits.places_of(spec._replace(target=target, run_configuration=configuration), 4) == places


def test_torchrun_waits_for_enough_places() -> None:
    def demand(name: str, places: int) -> limits.Demand:
        return limits.Demand("here", "localdocker", "box", 4, "", 0, name, places)

    one, all_, two = demand("one", 1), demand("all", 4), demand("two", 2)
    most = {"localdocker": 4}
    assert limits.reason_to_wait(all_, [one], [], most) == "waits for one on box"
    assert limits.reason_to_wait(all_, [], [], most) == ""
    assert limits.reason_to_wait(one, [all_], [], most) == "waits for all on box"
    assert limits.reason_to_wait(two, [one, one], [], most) == ""
    assert limits.reason_to_wait(two, [one, two], [], most) == "waits for one or two on box"
    # A run that takes more places than there are does not wait forever.
    assert limits.reason_to_wait(all_, [], [], {"localdocker": 1}) == ""


def test_foreign_files_in_the_queue_are_ignored(place: Place) -> None:
    folder = Path(user_state_directory(), "queue", "waiting")
    folder.mkdir(parents=True)
    (folder / "0").symlink_to("/nowhere")
    (folder / "1").write_text("junk")
    (folder / "2").symlink_to(place.root)
    run = place.submit()
    assert run.state == "running"
    assert list(folder.iterdir()) == []
