"""The GPUs of a cluster by partition, from the columns of sinfo and squeue (22.05 and 24.11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.targets.slurm_fixtures import login_of
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.slurm.cluster_gpus import parse_gpus
from tui_workbench.targets.slurm.slurm_target import SlurmTarget
from tui_workbench.targets.values import ClusterPartition

if TYPE_CHECKING:
    from pathlib import Path

    from tests.slurm_cluster import SlurmCluster

NODES = """\
node1 gpu* mix gpu:a100:2 gpu:a100:2(IDX:0-1)
node2 gpu* idle gpu:v100:2 gpu:v100:1(IDX:0)
node3 gpu* down* gpu:v100:4 gpu:v100:0(IDX:N/A)
node2 cpu mix- gpu:v100:2 gpu:v100:1(IDX:0)
"""


def test_gpus_are_counted_by_partition() -> None:
    found = parse_gpus(f"1 gpu 1 cpu=1,gres/gpu=2 N/A N/A 29:57 node1 wb-run_1\n=\n{NODES}")
    assert found.partitions == (ClusterPartition("cpu", 2, 1, 1, 0), ClusterPartition("gpu", 8, 3, 1, 2))
    assert found.jobs[0].run_id == "run_1"


def test_gpus_of_jobs_come_from_the_request_without_accounting() -> None:
    text = "1 gpu 2 cpu=1 N/A gres:gpu:a100:2 29:57 node[1-2] mine\n2 gpu 1 cpu=1 gres:gpu:1 N/A 9:57 node1 x y\n=\n"
    assert [job.gpus for job in parse_gpus(text).jobs] == [4, 1]


@given(st.text())
def test_any_answer_can_be_parsed(text: str) -> None:
    parse_gpus(text)


def test_jobs_use_gpus_of_their_partition(each_slurm: SlurmCluster, home: Path, connections: Path, key: Path) -> None:
    host = login_of(each_slurm, home, key)
    target = SlurmTarget(ComputeTarget("c", "", "slurm", run_root=str(each_slurm.run_root)), host)
    job = each_slurm.submit("sleep 600", "--gpus=1")
    each_slurm.until_state(job, "RUNNING")
    other = each_slurm.submit("sleep 600", "--gpus=1", "--output=/dev/null", user="outsider")
    each_slurm.until_state(other, "RUNNING")
    found = target.cluster_gpus()
    gpu = next(each for each in found.partitions if each.name == "gpu")
    assert (gpu.total, gpu.used, gpu.free, gpu.yours) == (4, 2, 2, 1)
    assert [(each.job_id, each.gpus, each.nodes) for each in found.jobs] == [(job, 1, "node1")]
