"""The lines of a cluster in the GPU monitor."""

from __future__ import annotations

from tui_workbench.targets.values import ClusterGpus, JobGpus
from tui_workbench.ui.gpu.cluster_view import cluster_lines


def test_jobs_of_a_cluster_without_gpus_are_shown() -> None:
    found = ClusterGpus((), (JobGpus("7", "", "cpu", "node1", 0, "9:57"),))
    lines = ["".join(piece.text for piece in line) for line in cluster_lines("cluster", found, {}, 80)]
    assert "no partition with GPUs" in lines[1]
    assert "job 7" in lines[2]
    assert "node1" in lines[2]
