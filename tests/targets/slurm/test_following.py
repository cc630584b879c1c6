"""Following several runs of a login with one group, without a cluster: `squeue` and `sacct` are scripts."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.faults.support import until
from tests.runs.support import record_of
from tui_workbench.core.model import RunSpec, RunState
from tui_workbench.runs.lifecycle.step_progress import Progress
from tui_workbench.runs.store.rundir import EVENTS, RunDirectory
from tui_workbench.targets.hosts.host import DEFAULT_TIMEOUT, Completed, LocalHost
from tui_workbench.targets.hosts.supervisor import EXIT
from tui_workbench.targets.slurm import followed
from tui_workbench.targets.slurm.cluster import LoginHost
from tui_workbench.targets.slurm.ends import INFO
from tui_workbench.targets.slurm.followed import FollowedRun
from tui_workbench.targets.slurm.following import ClusterWatch
from tui_workbench.targets.slurm.listing import Files
from tui_workbench.targets.slurm.squeue import Account, Job, Queue
from tui_workbench.targets.values import Outcome


class SlowLogin(LoginHost):
    """A machine whose answers to requests take longer than the pause between two interruptions."""

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = DEFAULT_TIMEOUT) -> Completed:
        time.sleep(0.3)
        return super().run(argv, stdin=stdin, timeout=timeout)


class Login:
    """A login node with the runs `exp_1` and `exp_2`: folders there and here, and a `squeue` that knows no job.

    `sacct` reports that a job was canceled.
    """

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.here = folder / "project" / ".workbench" / "runs"
        self.specs = [self._spec(name) for name in ("exp_1", "exp_2")]
        self.watch = ClusterWatch(LoginHost(LocalHost(), str(self.root)), 1.0)
        self._ended: dict[str, Outcome] = {}

    def _spec(self, name: str) -> RunSpec:
        directory = self.here / name
        directory.mkdir(parents=True)
        spec = record_of(directory).spec
        return spec._replace(target=spec.target._replace(type="slurm", slurm={"partition": "gpu"}))

    def end(self, name: str, log: str = "", code: str = "0") -> None:
        """Write the files of an ended job, or of a running job if `code` is empty."""
        run = self.root / "runs" / name
        run.mkdir(parents=True, exist_ok=True)
        (self.root / "started").mkdir(exist_ok=True)
        (run / "pid").write_text("12\n")
        (run / "exit").write_text(f"{code:4}\n")
        (run / "output.log").write_text(log)
        (self.root / "started" / name).touch()

    def follow(self) -> None:
        """Follow both runs."""
        for spec in self.specs:
            self.watch.add(spec, Progress(RunDirectory(spec.run_directory), -1, RunState.QUEUED))

    def follow_until(self, name: str) -> Outcome:
        """Follow both runs until one has ended, and return its outcome."""
        self.follow()
        until(lambda: name in self._ended or self._ended.update(self.watch.wait(-1, 1.0)))
        return self._ended[name]


@pytest.fixture
def login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Login]:
    (tmp_path / "bin").mkdir()
    for name, script in (("squeue", ""), ("sacct", "echo '12|CANCELLED by 0|0:0'")):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    login = Login(tmp_path)
    yield login
    login.watch.close()


def test_run_that_cannot_be_written_does_not_affect_others(login: Login) -> None:
    (login.here / "exp_1" / EVENTS).mkdir()
    login.end("exp_1")
    login.end("exp_2", "hello")
    assert login.follow_until("exp_2").exit_code == 0
    assert (login.here / "exp_2" / "output.log").read_text() == "hello"


@pytest.mark.processes
def test_file_that_cannot_be_copied_does_not_affect_others(login: Login) -> None:
    login.end("exp_1", code="")
    ranks = login.root / "runs" / "exp_1" / "ranks"
    ranks.mkdir()
    (ranks / "1.log").write_text("rank 1")
    (login.here / "exp_1" / "ranks").symlink_to(login.root)
    login.end("exp_2", code="")
    events = login.here / "exp_1" / EVENTS
    login.follow()
    until(lambda: login.watch.wait(-1, 0.1) or (events.exists() and "ranks" in events.read_text()), "the error")
    login.end("exp_2")
    assert login.follow_until("exp_2").exit_code == 0


@pytest.mark.processes
def test_end_of_an_earlier_attempt_does_not_end_the_next(login: Login) -> None:
    login.end("exp_1", "one", code="3")
    assert login.follow_until("exp_1").exit_code == 3
    for name in (EXIT, INFO):
        (login.here / "exp_1" / name).unlink()
    login.specs[0] = login.specs[0]._replace(attempt=2)
    login.end("exp_2")
    assert login.follow_until("exp_2").exit_code == 0
    assert login.watch.wait(-1, 1.0) == {}
    (login.root / "runs" / "exp_1" / "attempt").write_text("2\n")
    login.end("exp_1", "one, two")
    until(lambda: "exp_1" in login.watch.wait(-1, 1.0), "the end of the second attempt")
    assert (login.here / "exp_1" / "output.log").read_text() == "one, two"


def test_later_attempt_that_another_machine_started_is_followed(login: Login) -> None:
    login.end("exp_1", "one, two")
    (login.root / "runs" / "exp_1" / "attempt").write_text("2\n")
    assert login.follow_until("exp_1").exit_code == 0
    assert (login.here / "exp_1" / "output.log").read_text() == "one, two"


def test_end_between_two_attempts_comes_from_sacct(login: Login) -> None:
    options = {"partition": "gpu", "requeue": True}
    login.specs = [spec._replace(target=spec.target._replace(slurm=options)) for spec in login.specs]
    login.end("exp_1")
    run = login.root / "runs" / "exp_1"
    (run / "attempts" / "1").mkdir(parents=True)
    (run / "attempts" / "1" / "begin").write_text("0 node1\n")
    (run / "slurm.log").write_text(
        "error: *** JOB 12 ON node1 CANCELLED AT 2026-01-01T00:00:00 DUE TO JOB REQUEUE ***\n"
    )
    outcome = login.follow_until("exp_1")
    assert outcome.reason.startswith("it was canceled in Slurm (CANCELLED)")
    assert outcome.has_failed


@pytest.mark.processes
def test_lost_job_that_sacct_lists_as_running_is_unknown(login: Login, tmp_path: Path) -> None:
    (tmp_path / "bin" / "sacct").write_text("#!/bin/sh\necho '12|RUNNING|0:0'\n")
    login.end("exp_1", code="")
    outcome = login.follow_until("exp_1")
    assert outcome.reason == "Slurm no longer knows the job; its exit code was not written"
    assert not outcome.has_failed


def test_frequent_interruptions_do_not_stop_the_copy_of_a_log(login: Login) -> None:
    login.watch = ClusterWatch(SlowLogin(LocalHost(), str(login.root)), 1.0)
    login.end("exp_1", "hello", code="")
    login.follow()
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    is_over = threading.Event()

    def interrupt() -> None:
        while not is_over.wait(0.1):
            os.write(writing, b"c")

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    log = login.here / "exp_1" / "output.log"
    try:
        until(lambda: login.watch.wait(reading) or (os.read(reading, 4096) and log.exists()), "the log")
    finally:
        is_over.set()
        interrupting.join()
        os.close(reading)
        os.close(writing)
    assert log.read_text() == "hello"


def requeued_run(login: Login) -> FollowedRun:
    (spec, _) = login.specs
    progress = Progress(RunDirectory(spec.run_directory), -1, RunState.RUNNING)
    host = LoginHost(LocalHost(), str(login.root))
    return FollowedRun(host, spec.run_id, spec.run_directory, "12", progress, may_restart=True, has_samples=False)


def test_ended_script_of_a_requeued_job_waits_for_slurm(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed, "EXPLAIN_SECONDS", 0.0)
    run = requeued_run(login)
    run.take_files(Files(exit_code=0))
    now = time.monotonic()
    assert not run.wants_explanation(now)
    assert run.outcome(now) is None
    assert math.isinf(run.next_time())  # no busy loop until squeue reports the end


@pytest.mark.parametrize(("end", "code"), [("COMPLETED", 0), ("CANCELLED", None)])
def test_pending_job_that_completes_has_run(login: Login, end: str, code: int | None) -> None:
    """A slurmctld that was killed lists a job as pending that it has started."""
    run = requeued_run(login)
    run.take_files(Files(job_id="12", exit_code=0))
    for state in ("PENDING", end):
        run.take_queue(Queue("", {"12": Job("12", state)}), time.monotonic())
    run.take_accounting(Account())
    outcome = run.outcome(time.monotonic())
    assert outcome is not None
    assert outcome.exit_code == code
