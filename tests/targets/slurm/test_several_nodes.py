"""Torchrun on two nodes of a real cluster, with a real PyTorch: two ranks on each node, connected by Gloo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import until
from tui_workbench.runs.logs.rank_files import node_log, rank_log, ranks_by_node

if TYPE_CHECKING:
    from tests.targets.slurm.project import SlurmProject

TRAIN = """
import os, socket, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
print("sum", total.item(), "on", socket.gethostname(), os.environ["OMP_NUM_THREADS"], sys.argv[1:])
sys.stdout.buffer.write(b"raw \\xff\\n")
dist.destroy_process_group()
"""

# Every rank exchanges with the others until rank 3 has ended.
EXCHANGE = """
import os, signal, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
print("rank", rank, "is", os.getpid(), flush=True)
def exchange():
    dist.all_reduce(torch.ones(1))
    time.sleep(0.02)
"""

WAITS = """
import os, signal, time
print("rank", os.environ["RANK"], "is", os.getpid(), flush=True)
while True:
    time.sleep(0.1)
"""

FAILS_ONCE = """
import glob, os, time
attempt, folder = os.environ["WORKBENCH_ATTEMPT"], os.environ["WORKBENCH_RUN_DIRECTORY"]
print("attempt", attempt, flush=True)
open(f"{folder}/rank-{attempt}-{os.environ['RANK']}", "w").close()
while len(glob.glob(f"{folder}/rank-{attempt}-*")) < 4:
    time.sleep(0.05)
raise SystemExit(attempt == "1")
"""

DEAF = WAITS.replace("while", "signal.signal(15, signal.SIG_IGN)\nprint('deaf', flush=True)\nwhile")


@pytest.fixture
def nodes(project: SlurmProject, torch_path: Path) -> SlurmProject:
    """Return a project whose runs have two ranks on each of two nodes."""
    variables = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(torch_path), "PYTHONDONTWRITEBYTECODE": "1"}
    project.configure(Nodes=2, ProcessesPerNode=2, EnvironmentVariables=variables)
    return project


def start_deaf_ranks(project: SlurmProject, *options: str) -> str:
    """Start ranks that ignore SIGTERM, and return the run's ID when they run."""
    project.write(DEAF)
    run_id = project.detach(*options, "train.py", configuration="cluster")
    until(lambda: project.log(run_id).count("deaf") == 4, "deaf ranks")
    return run_id


def run_of(project: SlurmProject, *arguments: str) -> tuple[str, Path, str]:
    """Run the script to its end; return the run's ID, its directory here and the errors of the command."""
    ended = project.submit("train.py", *arguments, configuration="cluster")
    run_id = project.history()[0]["run_id"]
    return run_id, project.run_directory(run_id), ended.err


def processes(project: SlurmProject) -> list[int]:
    """Return the local IDs of all processes of ranks and launchers on the nodes."""
    return [pid for node in project.cluster.nodes.values() for pid in node.processes("python3")]


def test_ranks_of_two_nodes_communicate(nodes: SlurmProject) -> None:
    nodes.write(TRAIN)
    run_id, directory, errors = run_of(nodes, "a b", "--rdzv_endpoint=$HOME")
    assert nodes.info(run_id)["status"] == "Completed", (errors, nodes.log(run_id))
    by_node = ranks_by_node(str(directory))
    assert sorted(by_node) == ["node1", "node2"]
    assert sorted(rank for ranks in by_node.values() for rank in ranks) == [0, 1, 2, 3]
    merged = (directory / "output.log").read_bytes()
    for node, ranks in by_node.items():
        assert len(ranks) == 2
        for rank in ranks:
            written = Path(rank_log(str(directory), rank)).read_bytes()
            said = f"sum 10.0 on {node} 1 ['a b', '--rdzv_endpoint=$HOME']\n".encode()
            assert written.endswith(said + b"raw \xff\n")
            # The logs of the node and of the run contain every line of the rank once, in order.
            for log in (merged, Path(node_log(str(directory), node)).read_bytes()):
                prefix = b"[rank%d]: " % rank
                lines = [line.removeprefix(prefix) for line in log.splitlines(True) if line.startswith(prefix)]
                assert lines == written.splitlines(True)


FAILS = f"""{EXCHANGE}
for number in range(10**6):
    exchange()
    if rank == 3 and number == 5:
        raise ValueError("bad shapes")
"""


def test_first_failed_rank_is_named_and_all_ranks_end(nodes: SlurmProject) -> None:
    """The other ranks fail in the same second, because they lose the connection to it."""
    nodes.write(FAILS)
    run_id, directory, errors = run_of(nodes)
    node = next(name for name, ranks in ranks_by_node(str(directory)).items() if 3 in ranks)
    assert f"failed: rank 3 on {node}: ValueError: bad shapes (train.py:14)" in errors, (errors, nodes.log(run_id))
    assert "[rank3]: ValueError: bad shapes" in nodes.log(run_id)
    until(lambda: not processes(nodes), "the end of all processes")
    for part in (["--rank", "3"], ["--node", node]):
        assert "ValueError: bad shapes" in nodes.run("logs", run_id, *part).out
    assert nodes.run("logs", run_id, "--node", "node9").error(2, "the run has no node 'node9'", "node1, node2")


def pids(project: SlurmProject, run_id: str) -> dict[int, int]:
    """Wait for all ranks, and return their process IDs on their nodes, by rank."""
    until(lambda: project.log(run_id).count(" is ") == 4, "all ranks")
    lines = [line.split() for line in project.log(run_id).splitlines() if " is " in line]
    return {int(words[2]): int(words[4]) for words in lines}


def test_killed_rank_ends_the_ranks_of_all_nodes(nodes: SlurmProject) -> None:
    """These ranks wait, so they do not notice that they have lost the connection. They also ignore SIGTERM."""
    run_id = start_deaf_ranks(nodes)
    killed = pids(nodes, run_id)[3]
    by_node = ranks_by_node(str(nodes.there(run_id)))
    node = next(name for name, ranks in by_node.items() if 3 in ranks)
    nodes.cluster.nodes[node].run(["kill", "-KILL", str(killed)])
    until(lambda: not processes(nodes), "the end of all processes")
    # torchrun would have killed the other rank on the node only after 30 seconds.
    assert "forcefully exiting" not in nodes.log(run_id)
    nodes.until_status(run_id, "Failed")
    assert nodes.info(run_id)["reason"].startswith(f"rank 3 on {node} was killed by signal 9 (SIGKILL)")


def test_cancel_ends_all_ranks_on_all_nodes(nodes: SlurmProject) -> None:
    run_id = start_deaf_ranks(nodes)
    for node in ("node1", "node2"):  # the space for the exit code is reserved
        assert (nodes.there(run_id) / "ranks" / node / "exit").read_bytes() == b"%31s\n" % b""
    assert nodes.run("experiment", "cancel", "--run", run_id, "--grace", "0.2").code == 0
    assert nodes.status(run_id) == "Canceled"
    assert not processes(nodes)


def preempt(project: SlurmProject) -> None:
    urgent = project.cluster.submit("true", "--partition=urgent", "--exclusive", "--nodes=2")
    project.cluster.until_state(urgent, "COMPLETED")


def test_preemption_ends_all_ranks_and_is_the_reason(nodes: SlurmProject) -> None:
    """Slurm sends SIGTERM to all processes, and the launcher sends it to torchrun again, which then ends too early."""
    run_id = start_deaf_ranks(nodes, "--slurm", "partition=scavenge")
    preempt(nodes)
    nodes.until_status(run_id, "Failed")
    assert "a job with a higher priority took its nodes (PREEMPTED)" in nodes.info(run_id)["reason"]
    assert not processes(nodes)


def test_ranks_end_before_the_next_attempt_begins(nodes: SlurmProject) -> None:
    run_id = start_deaf_ranks(nodes, "--slurm", "partition=scavenge,requeue=true")
    first = processes(nodes)
    assert len(first) >= 4
    preempt(nodes)
    until(lambda: nodes.log(run_id).count("deaf") == 8, "the second attempt")
    assert not set(first).intersection(processes(nodes))
    assert nodes.run("experiment", "cancel", "--run", run_id, "--grace", "0.2").code == 0
    assert not processes(nodes)


def test_requeued_job_copies_each_line_once(nodes: SlurmProject) -> None:
    again = WAITS.replace("while True", "while 'SLURM_RESTART_COUNT' not in os.environ")
    nodes.write(again + "print('trained', flush=True)\n")
    run_id = nodes.detach("--slurm", "requeue=true", "train.py", configuration="cluster")
    pids(nodes, run_id)
    nodes.cluster.manage("requeue", nodes.job)
    nodes.until_status(run_id, "Completed")
    for rank in range(4):
        lines = [line for line in nodes.log(run_id).splitlines() if line.startswith(f"[rank{rank}]: ")]
        assert [line.split()[1] for line in lines] == ["rank", "rank", "trained"], nodes.log(run_id)


def test_failed_ranks_start_again_in_the_same_logs(nodes: SlurmProject) -> None:
    path = nodes.folder / "aml_config" / "cluster.runconfig"
    path.write_text(json.dumps({**json.loads(path.read_text()), "Retry": {"delay": 0}}))
    nodes.write(FAILS_ONCE)
    run_id, directory, errors = run_of(nodes)
    assert nodes.info(run_id)["status"] == "Completed", (errors, nodes.log(run_id))
    logs = [rank_log(str(directory), rank) for rank in range(4)]
    assert [Path(log).read_text().splitlines() for log in logs] == [["attempt 1", "attempt 2"]] * 4


def test_unknown_first_node_is_reported(nodes: SlurmProject) -> None:
    """Stand-in: a scontrol that fails."""
    folder = nodes.cluster.scratch / "broken"
    folder.mkdir()
    (folder / "scontrol").write_text("#!/bin/sh\nexit 1\n")
    (folder / "scontrol").chmod(0o755)
    nodes.configure({"setup": [f"export PATH={folder}:$PATH"]}, Nodes=2, ProcessesPerNode=2)
    nodes.write("print('never')")
    run_id, _, errors = run_of(nodes)
    assert "failed: setup failed with exit code 1: scontrol show hostnames node[1-2]" in errors, errors
    assert "never" not in nodes.log(run_id)


def test_plan_shows_the_command_of_every_node(nodes: SlurmProject) -> None:
    nodes.write(TRAIN)
    out = nodes.run("experiment", "submit", "-c", "cluster", "--dry-run", "train.py").out
    assert "under torchrun, 2 processes on each of 2 nodes" in out
    assert "--nodes=2 --ntasks-per-node=1" in out
    assert " -m torch.distributed.run --nnodes=2 --rdzv_backend=c10d --rdzv_id=" in out
    assert "--rdzv_endpoint=$WORKBENCH_RENDEZVOUS" in out
