"""The GPUs of a cluster by partition, and the nodes of this user's jobs, from sinfo and squeue.

The fields of `-O` have fixed widths, and no value except a job's name, the last field, contains a space. The tested
versions, 22.05 and 24.11, print the same columns. No compute node is contacted.
"""

from __future__ import annotations

import re

from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.slurm.options import run_of
from tui_workbench.targets.slurm.squeue import LONGEST_FIELD
from tui_workbench.targets.values import ClusterGpus, ClusterPartition, JobGpus

MOST_LINES = 20_000
"""Maximum number of lines that are read from an answer."""

LIST_GPUS = shell_script("targets/slurm/scripts/list_gpus.sh")
"""A script that prints this user's running jobs, a line `=`, and each node with GPUs once per partition."""

_ALLOCATED = re.compile(r"gres/gpu=(\d+)")
_REQUESTED = re.compile(r"gpu(?::[^:,()=/]+)?[:=](\d+)")
_GRES = re.compile(r"gpu(?::[^:,()]+)?:(\d+)")
_USABLE = ("idle", "mix", "alloc", "comp", "plnd", "planned", "resv")


def parse_gpus(text: str) -> ClusterGpus:
    """Read the output of LIST_GPUS. Lines of any other form are ignored."""
    above, _, below = text.partition("\n=\n") if not text.startswith("=\n") else ("", "", text[2:])
    jobs = [job for line in above.split("\n")[:MOST_LINES] if (job := _job(line)) is not None]
    counts: dict[str, list[int]] = {}
    for line in below.split("\n")[:MOST_LINES]:
        words = line.split()
        if len(words) != 5:
            continue
        total = _sum(_GRES, words[3])
        used = min(total, _sum(_GRES, words[4]))
        count = counts.setdefault(_safe(words[1].rstrip("*")), [0, 0, 0])
        is_usable = words[2].startswith(_USABLE) and not words[2].endswith(("*", "$"))
        count[0] += total
        count[1] += used
        count[2] += total - used if is_usable else 0
    partitions = (
        ClusterPartition(name, total, used, free, sum(job.gpus for job in jobs if job.partition == name))
        for name, (total, used, free) in sorted(counts.items())
    )
    return ClusterGpus(tuple(partitions), tuple(jobs))


def _job(line: str) -> JobGpus | None:
    words = line.split()
    if len(words) < 9 or not words[0].isdecimal() or not words[2].isdecimal():
        return None
    job_id, partition, nodes, allocated, per_job, per_node, left, node_names, name = map(_safe, words[:9])
    match = _ALLOCATED.search(allocated)
    # A cluster that does not account for GPUs reports only the requested GPUs.
    gpus = int(match[1]) if match else _sum(_REQUESTED, per_job) or int(nodes) * _sum(_REQUESTED, per_node)
    return JobGpus(job_id, run_of(name), partition, node_names, gpus, left)


def _sum(pattern: re.Pattern[str], text: str) -> int:
    return sum(int(number) for number in pattern.findall(text) if len(number) < 7)


def _safe(word: str) -> str:
    return "".join(char for char in word[:LONGEST_FIELD] if char.isprintable())
