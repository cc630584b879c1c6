"""Find the output files of the ranks of a run with torchrun.

Ranks on one machine write to `ranks/RANK.log`. Ranks of a run on several nodes write to `ranks/NODE/RANK.log`, and
`ranks/NODE/output.log` contains the lines of all ranks on a node.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Mapping

from tui_workbench.core.errors import UsageError
from tui_workbench.runs.store.rundir import OUTPUT, RunDirectory
from tui_workbench.targets.hosts.supervisor import RANKS

TORCHRUN_LOG = "torchrun.log"  # the output of torchrun itself
AGAIN = "workbench: the script is started again\n"
"""The line with which the launcher (sdk/workbench_ranks.py) separates the attempts in torchrun.log."""

MOST_RANKS = 1 << 14  # a script can create any number of files; further ranks and nodes are ignored

_RANK_LOG = re.compile(r"(0|[1-9][0-9]{0,8})\.log")


def ranks_by_node(directory: str) -> dict[str, tuple[int, ...]]:
    """Return the ranks that have files in the run directory, by node. The node "" is the machine of the run."""
    ranks = {}
    room = MOST_RANKS
    for node in ("", *_node_names(directory)):
        with contextlib.suppress(OSError):
            names = map(_RANK_LOG.fullmatch, os.listdir(os.path.join(directory, RANKS, node)))
            numbers = sorted(int(name[1]) for name in names if name is not None)[:room]
            room -= len(numbers)
            if node or numbers:
                ranks[node] = tuple(numbers)
    return ranks


def ranks_of(directory: str) -> tuple[int, ...]:
    """Return the ranks that have logs in the run directory; empty for a run without rank logs."""
    return tuple(sorted({rank for ranks in ranks_by_node(directory).values() for rank in ranks}))


def current_nodes(directory: str, by_node: Mapping[str, tuple[int, ...]]) -> dict[int, str]:
    """Return the current node of each rank, in the order of the ranks. `by_node` is the result of `ranks_by_node`."""
    nodes: dict[int, list[str]] = {}
    for node, ranks in by_node.items():
        for rank in ranks:
            nodes.setdefault(rank, []).append(node)
    # After a second start of the job, other nodes may have the rank.
    return {
        rank: max(names, key=lambda node: _written(rank_path(directory, node, rank))) if len(names) > 1 else names[0]
        for rank, names in sorted(nodes.items())
    }


def rank_log(directory: str, rank: int) -> str:
    """Return the path of the current output file of a rank."""
    return rank_path(directory, current_nodes(directory, ranks_by_node(directory)).get(rank, ""), rank)


def rank_path(directory: str, node: str, rank: int) -> str:
    """Return the path of the output file of a rank on a node."""
    return os.path.join(directory, RANKS, node, f"{rank}.log")


def node_log(directory: str, node: str) -> str:
    """Return the path of the file with the output of all ranks on a node."""
    return os.path.join(directory, RANKS, node, OUTPUT)


def torchrun_logs(directory: str) -> dict[str, str]:
    """Return the paths of the files with the output of torchrun, by node (see `ranks_by_node`)."""
    names = ("", *_node_names(directory))
    paths = {node: os.path.join(directory, RANKS, node, TORCHRUN_LOG) for node in names}
    return {node: path for node, path in paths.items() if os.path.isfile(path)}


def file_of_rank(directory: RunDirectory, rank: int) -> str:
    """Return the path of a rank's output file. Raises UsageError for an unknown rank.

    The file may not exist yet if the run is active.
    """
    ranks = ranks_of(directory.path)
    spec = directory.read_record().spec
    processes = spec.run_configuration.processes_per_node
    may_come = spec.nodes == 1 and (processes == "gpus" or (processes.isdigit() and rank < int(processes)))
    if rank in ranks or (may_come and not directory.status().end):
        return rank_log(directory.path, rank)
    if ranks:
        raise UsageError(f"the run has no rank {rank}", remedy=f"Choose one of: {', '.join(map(str, ranks))}.")
    raise UsageError(
        "the run has no ranks, because torchrun has not started its script",
        remedy="If the run uses torchrun, wait until its ranks start. To start a run with torchrun, set "
        "`ProcessesPerNode` in its run configuration.",
    )


def file_of_node(directory: RunDirectory, node: str) -> str:
    """Return the path of a node's output file. Raises UsageError for an unknown node."""
    nodes = [name for name in ranks_by_node(directory.path) if name]
    if node in nodes:
        return node_log(directory.path, node)
    if nodes:
        raise UsageError(f"the run has no node {node!r}", remedy=f"Choose one of: {', '.join(nodes)}.")
    raise UsageError(
        "the run has no logs of nodes, because torchrun has not started its script on several nodes",
        remedy="If the run uses several nodes, wait until its ranks start. To start a run on several nodes of a "
        "cluster, set `Nodes` and `ProcessesPerNode` in its run configuration.",
    )


def _node_names(directory: str) -> list[str]:
    try:
        with os.scandir(os.path.join(directory, RANKS)) as entries:
            # On one machine, the folder `torchrun` contains the error files of torchrun.
            names = (entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
            nodes = (name for name in names if os.path.exists(node_log(directory, name)))
            return sorted(itertools.islice(nodes, MOST_RANKS))
    except OSError:
        return []


def _written(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
