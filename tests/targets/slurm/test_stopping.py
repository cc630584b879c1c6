"""Canceling while a request whose connection was lost is still submitting. The commands of Slurm are scripts."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.support import until
from tests.runs.support import record_of
from tui_workbench.core.model import RunSpec, SweepTask
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.hosts.host_layout import project_key
from tui_workbench.targets.slurm.cluster import LoginHost
from tui_workbench.targets.slurm.job import stop
from tui_workbench.targets.slurm.slurm_target import SlurmTarget
from tui_workbench.targets.slurm.submission import Submission, SubmissionRefused, submit

# `sbatch` waits for the file `accept`; the file `jobs` exists while there is a job; `flock` notes its calls in `locks`.
COMMANDS = {
    "sbatch": "until [ -e {top}/accept ]; do sleep 0.05; done; echo '7|7|PENDING|None|wb-exp_1' >{top}/jobs; echo 7",
    "squeue": "[ ! -s {top}/jobs ] || case $* in *-o\\ %T) echo PENDING ;; *-s*) ;; *) cat {top}/jobs ;; esac",
    "scancel": 'rm -f {top}/jobs; echo "$@" >>{top}/canceled',
    "flock": 'echo "$3" >>{top}/locks; exec /usr/bin/flock "$@"',
}


class Submitting(NamedTuple):
    """A run, its directory on the login node, and its job."""

    host: LoginHost
    spec: RunSpec
    there: Path
    job: Submission


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submitting:
    (tmp_path / "bin").mkdir()
    for name, text in COMMANDS.items():
        script = tmp_path / "bin" / name
        script.write_text(f"#!/bin/sh\n{text.format(top=tmp_path)}\n")
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    there = tmp_path / "root" / "runs" / "exp_1"
    there.mkdir(parents=True)
    here = tmp_path / "project" / ".workbench" / "runs" / "exp_1"
    here.mkdir(parents=True)
    job = Submission(str(there), "wb-exp_1", b"step", b"batch", (), "")
    return Submitting(LoginHost(LocalHost(), str(tmp_path / "root")), record_of(here).spec, there, job)


def test_cancel_waits_for_a_submission(run: Submitting, tmp_path: Path) -> None:
    submitting = threading.Thread(target=submit, args=(run.host, run.job))
    submitting.start()
    until((run.there / "attempted").exists)
    canceling = threading.Thread(target=stop, args=(run.host, run.spec, 0.0))
    canceling.start()
    until(lambda: not canceling.is_alive() or (tmp_path / "locks").read_text() == "9\n9\n")
    (tmp_path / "accept").touch()
    for thread in (submitting, canceling):
        thread.join()
    assert not (tmp_path / "jobs").exists()


def test_request_that_arrives_after_a_cancel_submits_nothing(run: Submitting, tmp_path: Path) -> None:
    (tmp_path / "accept").touch()
    assert stop(run.host, run.spec, 0.0) is None
    with pytest.raises(SubmissionRefused, match="the run was canceled"):
        submit(run.host, run.job)
    assert not (tmp_path / "jobs").exists()


def test_cancel_spares_the_job_of_another_run(run: Submitting, tmp_path: Path) -> None:
    """A slurmctld that lost its last jobs gives their IDs to other jobs."""
    (run.there / "job").write_text("7\n")
    (tmp_path / "jobs").write_text("7|7|PENDING|None|wb-exp_2\n")
    assert stop(run.host, run.spec, 0.0) is None
    assert (tmp_path / "jobs").exists()


def test_cancel_ends_the_job_of_the_current_attempt(run: Submitting, tmp_path: Path) -> None:
    (run.there / "attempt").write_text("2\n")
    (run.there / "attempted").touch()  # the request was killed before it stored the ID of the job
    (tmp_path / "jobs").write_text("6|6|RUNNING|None|wb-exp_1\n7|7|PENDING|None|wb-exp_1.2\n")
    assert stop(run.host, run.spec, 0.0) is False
    assert (tmp_path / "canceled").read_text() == "7\n"


def test_canceled_sweep_leaves_no_held_tasks(run: Submitting, tmp_path: Path) -> None:
    spec = run.spec._replace(sweep=SweepTask("sweep-1", 1, 2, 1))
    target = SlurmTarget(spec.target._replace(run_root=run.host.home()), LocalHost())
    name = f"sweep-1-{project_key(spec.project_root)}"
    array = tmp_path / "root" / "arrays" / name
    array.mkdir(parents=True)
    (array / "attempted").touch()  # the request was killed before it stored the ID of the array
    target.release(spec)
    assert f"-n {name}" in (tmp_path / "canceled").read_text()
