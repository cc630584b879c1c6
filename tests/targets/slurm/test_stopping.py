"""Canceling while a lost request still submits the job. The commands of Slurm are scripts."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.faults.support import until
from tests.runs.support import record_of
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.slurm.cluster import LoginHost
from tui_workbench.targets.slurm.stopping import stop
from tui_workbench.targets.slurm.submission import Submission, submit

# `sbatch` waits for the file `accept`; the file `jobs` exists while there is a job; `flock` notes its calls in `locks`.
COMMANDS = {
    "sbatch": "until [ -e {top}/accept ]; do sleep 0.05; done; echo 7 >{top}/jobs; echo 7",
    "squeue": "[ ! -s {top}/jobs ] || case $* in *-o\\ %T) echo PENDING ;; *-s*) ;; *) echo 7 ;; esac",
    "scancel": "rm -f {top}/jobs",
    "flock": 'echo "$3" >>{top}/locks; exec /usr/bin/flock "$@"',
}


def test_cancel_waits_for_a_submission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    for name, text in COMMANDS.items():
        script = tmp_path / "bin" / name
        script.write_text(f"#!/bin/sh\n{text.format(top=tmp_path)}\n")
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    host = LoginHost(LocalHost(), str(tmp_path / "root"))
    there = tmp_path / "root" / "runs" / "exp_1"
    there.mkdir(parents=True)
    here = tmp_path / "project" / ".workbench" / "runs" / "exp_1"
    here.mkdir(parents=True)
    spec = record_of(here).spec
    job = Submission(str(there), "wb-exp_1", b"step", b"batch", (), "")
    submitting = threading.Thread(target=submit, args=(host, job))
    submitting.start()
    until((there / "attempted").exists)
    canceling = threading.Thread(target=stop, args=(host, spec, 0.0))
    canceling.start()
    until(lambda: not canceling.is_alive() or (tmp_path / "locks").read_text() == "9\n9\n")
    (tmp_path / "accept").touch()
    for thread in (submitting, canceling):
        thread.join()
    assert not (tmp_path / "jobs").exists()
