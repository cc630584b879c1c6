"""The scripts of a cluster work in every shell that is installed as `sh`. The commands of Slurm are scripts."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.support import until
from tests.runs.support import record_of
from tui_workbench.core.model import ComputeTarget, RunSpec, SweepTask
from tui_workbench.targets.base.run_environment import RENDEZVOUS_WORD
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.hosts.host_run import Placing
from tui_workbench.targets.slurm.batch import batch_script, step_script
from tui_workbench.targets.slurm.checks import ClusterChecks
from tui_workbench.targets.slurm.cluster import LoginHost
from tui_workbench.targets.slurm.cluster_gpus import LIST_GPUS, parse_gpus
from tui_workbench.targets.slurm.ends import accounting
from tui_workbench.targets.slurm.job import stop, warn
from tui_workbench.targets.slurm.listing import Listing, follow_words, list_once
from tui_workbench.targets.slurm.slurm_target import SlurmTarget
from tui_workbench.targets.slurm.squeue import LIST_JOBS, LIST_POSITIONS, Account, parse, parse_positions
from tui_workbench.targets.slurm.submission import (
    ArrayTask,
    Submission,
    Submitted,
    job_of,
    place_and_submit,
    reset,
    submit,
)

# The commands note their arguments in `NAME.calls`. `jobs` has the answer of squeue; `srun` executes the program after
# `--`, in which /bin/sh is the tested shell.
COMMANDS = {
    "sbatch": "cat >/dev/null; echo 12",
    "squeue": 'cat "$TOP/jobs" 2>/dev/null; exit 0',
    "sacct": "echo '12|FAILED|3:0|2026-11-29T08:00:00'",
    "scancel": 'rm -f "$TOP/jobs"',
    "scontrol": "[ \"$1\" != show ] || printf 'node1\\nnode2\\n'",
    "sinfo": "echo 'node1 gpu* idle gpu:a100:2(S:0) gpu:a100:1(IDX:0)'",
    "srun": 'while [ "$1" != -- ]; do shift; done; shift 2; exec sh "$@"',
}
BATCH = "import os, sys; print(*(os.environ.get(name, '') for name in sys.argv[1:])); sys.exit(3)"


class Cluster:
    """The login node of a cluster, which is this machine, and a run."""

    def __init__(self, top: Path) -> None:
        self.top = top
        (top / "bin").mkdir()
        for name in COMMANDS:
            self.command(name, COMMANDS[name])
        self.root = top / "a root's"
        self.run = self.root / "runs" / "exp_1"
        (self.run / "work").mkdir(parents=True)
        self.host = LoginHost(LocalHost(), str(self.root))
        here = top / "project" / ".workbench" / "runs" / "exp_1"
        here.mkdir(parents=True)
        target = ComputeTarget("c", str(top / "c.compute"), "slurm", run_root=str(self.root))
        self.spec: RunSpec = record_of(here).spec._replace(target=target)

    def command(self, name: str, script: str) -> None:
        """Replace a command of Slurm."""
        path = self.top / "bin" / name
        path.write_text(f'#!/bin/sh\nTOP=\'{self.top}\'\necho "$*" >>"$TOP/{name}.calls"\n{script}\n')
        path.chmod(0o755)

    def calls(self, name: str) -> list[str]:
        """Return the arguments of each call of a command."""
        path = self.top / f"{name}.calls"
        return path.read_text().splitlines() if path.exists() else []

    def job(self, array: ArrayTask | None = None) -> Submission:
        return Submission(str(self.run), "wb-exp_1", b"step", b"batch", ("--parsable",), "`clean`", array)

    def execute(self, *names: str, requeues: bool = False, spans_nodes: bool = False) -> int:
        """Execute the batch script of a run that prints variables. Return its exit code."""
        words = (sys.executable, "-c", BATCH, *names, *((RENDEZVOUS_WORD,) if spans_nodes else ()))
        variables = {"NAME": "it's\n$HOME"}
        step = step_script(
            str(self.run), str(self.root / "share"), words, variables, inherits_path=True, spans_nodes=spans_nodes
        )
        (self.run / "step").write_text(step)
        text = batch_script(
            "exp_1", str(self.run), str(self.root), (), requeues=requeues, samples=True, spans_nodes=spans_nodes
        )
        job = {"SLURM_JOB_ID": "12", "SLURM_PROCID": "0", "SLURMD_NODENAME": "node1", "SLURM_JOB_NODELIST": "node[1-2]"}
        return subprocess.run(["sh"], input=text, env={**os.environ, **job}, text=True, check=False).returncode


@pytest.fixture
def cluster(tmp_path: Path, shell: str, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("PATH", f"{os.path.dirname(shell)}:{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return Cluster(tmp_path)


def test_batch_script_executes_the_step_and_the_sampler(cluster: Cluster) -> None:
    assert cluster.execute("NAME") == 3
    assert (cluster.run / "output.log").read_text() == "it's\n$HOME\n"
    assert (cluster.run / "exit").read_text().strip() == "3"
    assert (cluster.run / "gpu" / "0").read_text().startswith("h1 node1\nmthe job has no GPU\n")


def test_batch_script_counts_attempts(cluster: Cluster) -> None:
    assert cluster.execute("WORKBENCH_ATTEMPT", requeues=True) == 3
    assert (cluster.run / "output.log").read_text() == "1\n"
    files = list_once(cluster.host, ["exp_1"])["exp_1"]
    assert [(number, each.node, each.exit_code) for number, each in files.attempts.items()] == [(1, "node1", 3)]


def test_batch_script_lists_the_nodes_for_torchrun(cluster: Cluster) -> None:
    assert cluster.execute("WORKBENCH_NODES", "WORKBENCH_RENDEZVOUS", "WORKBENCH_NODE", spans_nodes=True) == 3
    assert (cluster.run / "output.log").read_text().strip() == "node1:0 node2:0 node1:20012 node1"
    assert (cluster.run / "ranks" / "node2" / "output.log").read_text() == ""


def test_job_is_submitted_once(cluster: Cluster) -> None:
    placing = Placing('cat >"$2/run.json"; echo placed', ("", str(cluster.run), "", "", "", "6"), b"record")
    assert place_and_submit(cluster.host, placing, cluster.job()) == Submitted("12")
    assert submit(cluster.host, cluster.job()) == Submitted("12")
    assert cluster.calls("sbatch") == ["--parsable"]
    assert job_of(cluster.host, str(cluster.run)) == "12"


def test_array_task_is_submitted_and_released(cluster: Cluster) -> None:
    spec = cluster.spec._replace(sweep=SweepTask("sweep-1", 1, 2, 1))
    folder = cluster.root / "arrays" / "sweep-1"
    (cluster.top / "jobs").write_text("13\n")
    array = ArrayTask(str(folder), "sweep-1", "1-2%1", 1, f"{cluster.run}/slurm.log", "#!/bin/sh")
    assert submit(cluster.host, cluster.job(array)) == Submitted("13", (), "12_1")
    assert (folder / "1").read_text() == f"{cluster.run}\n"
    assert "release 12_1" in cluster.calls("scontrol")
    SlurmTarget(spec.target, LocalHost()).release(spec)
    assert not (cluster.run / "step").exists()


def test_job_is_warned_canceled_and_reset(cluster: Cluster) -> None:
    submit(cluster.host, cluster.job())
    (cluster.run / "pid").write_text("12\n")
    (cluster.top / "jobs").write_text("12|12_1\n")
    warn(cluster.host, cluster.spec)
    assert cluster.calls("scancel") == ["--signal=TERM 12_1"]
    cluster.command("squeue", 'case $* in *-o\\ %T) ;; *) echo "12|12|RUNNING|None|wb-exp_1" ;; esac')
    assert stop(cluster.host, cluster.spec, 0.0) is None
    cluster.command(
        "squeue", '[ ! -e "$TOP/jobs" ] || case $* in *-s*) ;; *%T) echo PENDING ;; *) cat "$TOP/jobs" ;; esac'
    )
    (cluster.top / "jobs").write_text("12|12_1|PENDING|None|wb-exp_1\n")
    assert stop(cluster.host, cluster.spec, 0.0) is False
    assert cluster.calls("scancel")[-1] == "12_1"
    reset(cluster.host, cluster.spec._replace(attempt=2), anew=False)
    assert (cluster.run / "attempt").read_text() == "2\n"
    assert not (cluster.run / "canceled").exists()


def test_started_runs_are_listed(cluster: Cluster) -> None:
    cluster.execute("NAME")
    files = list_once(cluster.host, ["exp_1"])["exp_1"]
    assert (files.job_id, files.exit_code, files.sizes["output.log"]) == ("12", 3, 11)
    (cluster.root / "started" / "exp_2").touch()  # the directory of this run is missing
    with contextlib.closing(cluster.host.open(follow_words(cluster.host))) as process:
        listing = Listing()
        found = until(lambda: listing.feed(os.read(process.stdout, 1 << 16)), "a listing")
    assert {run_id: each.exit_code for run_id, each in found.items()} == {"exp_1": 3}


def test_queue_and_gpus_are_read(cluster: Cluster) -> None:
    (cluster.top / "jobs").write_text("12|RUNNING|None|1:00|9:00|2026-11-29T08:00:00|N/A|node1|wb-exp_1\n")
    assert parse(cluster.host.ask_slurm(LIST_JOBS, timeout=60.0)).jobs["12"].run_id == "exp_1"
    gpus = parse_gpus(cluster.host.ask_slurm(LIST_GPUS, timeout=60.0))
    assert [(each.name, each.total, each.used) for each in gpus.partitions] == [("gpu", 2, 1)]
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    (cluster.top / "jobs").write_text(f"gpu 5 12 {user} Priority\ngpu 9 11 other Resources\n")
    assert parse_positions(cluster.host.ask(LIST_POSITIONS).text) == {"12": 2}
    found = accounting(cluster.host, ["12"])["12"]
    assert (found.state, found.exit_code) == Account("FAILED", 3)[:2]


def test_cluster_is_checked_with_a_job(cluster: Cluster) -> None:
    script = 'while [ $# -gt 3 ]; do shift; done; SLURMD_NODENAME=node1 sh "$@"; echo 7'
    cluster.command("sbatch", f'case $* in *--test-only*) echo "to start at now" >&2 ;; *) {script} ;; esac')
    checks = ClusterChecks(cluster.spec.target, LocalHost())
    assert "is accepted" in checks.slurm().message
    assert checks.job().message == f"node node1 can use {cluster.root}"
