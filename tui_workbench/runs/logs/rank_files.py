"""Find the output files of the ranks of a run with torchrun.

Ranks on one machine write to `ranks/RANK.log`. Ranks of a run on several nodes write to `ranks/NODE/RANK.log`, and
`ranks/NODE/output.log` contains the lines of all ranks on a node.
"""

from __future__ import annotations

import contextlib
import os

from tui_workbench.core.errors import UsageError
from tui_workbench.runs.store.rundir import OUTPUT, RunDirectory
from tui_workbench.targets.hosts.supervisor import RANKS

TORCHRUN_LOG = "torchrun.log"  # the output of torchrun itself


def ranks_by_node(directory: str) -> dict[str, tuple[int, ...]]:
    """Return the ranks that have files in the run directory, by node. The node "" is the machine of the run."""
    found = {}
    for node in ("", *_node_names(directory)):
        with contextlib.suppress(OSError):
            names = os.listdir(os.path.join(directory, RANKS, node))
            numbers = [int(name[:-4]) for name in names if name.endswith(".log") and name[:-4].isdecimal()]
            if node or numbers:
                found[node] = tuple(sorted(numbers))
    return found


def ranks_of(directory: str) -> tuple[int, ...]:
    """Return the ranks that have files in the run directory; empty for a run without torchrun."""
    return tuple(sorted({rank for ranks in ranks_by_node(directory).values() for rank in ranks}))


def rank_log(directory: str, rank: int) -> str:
    """Return the path of the output file of a rank."""
    # After a second start of the job, other nodes may have the rank.
    paths = [_path(directory, node, rank) for node, ranks in ranks_by_node(directory).items() if rank in ranks]
    return max(paths, key=_written, default=_path(directory, "", rank))


def node_log(directory: str, node: str) -> str:
    """Return the path of the file with the output of all ranks on a node."""
    return os.path.join(directory, RANKS, node, OUTPUT)


def torchrun_logs(directory: str) -> dict[str, str]:
    """Return the paths of the output of torchrun, by node."""
    names = ("", *_node_names(directory))
    paths = {node: os.path.join(directory, RANKS, node, TORCHRUN_LOG) for node in names}
    return {node: path for node, path in paths.items() if os.path.isfile(path)}


def file_of_rank(directory: RunDirectory, rank: int) -> str:
    """Return the path of a rank's file, which an active run may create later. Raises UsageError for an unknown rank."""
    ranks = ranks_of(directory.path)
    spec = directory.read_record().spec
    wanted = spec.run_configuration.processes_per_node
    may_come = spec.nodes == 1 and (wanted == "gpus" or (wanted.isdigit() and rank < int(wanted)))
    if rank in ranks or (may_come and not directory.status().end):
        return rank_log(directory.path, rank)
    if ranks:
        raise UsageError(f"the run has no rank {rank}", remedy=f"Choose one of: {', '.join(map(str, ranks))}.")
    raise UsageError(
        "the run has no ranks, because torchrun has not started its script",
        remedy="To start a run with torchrun, set `ProcessesPerNode` in its run configuration.",
    )


def file_of_node(directory: RunDirectory, node: str) -> str:
    """Return the path of a node's file. Raises UsageError for an unknown node."""
    nodes = [name for name in ranks_by_node(directory.path) if name]
    if node in nodes:
        return node_log(directory.path, node)
    if nodes:
        raise UsageError(f"the run has no node {node!r}", remedy=f"Choose one of: {', '.join(nodes)}.")
    raise UsageError(
        "the run has no logs of nodes, because torchrun has not started its script on several nodes",
        remedy="To start a run on several nodes of a cluster, set `Nodes` and `ProcessesPerNode`.",
    )


def _node_names(directory: str) -> list[str]:
    try:
        with os.scandir(os.path.join(directory, RANKS)) as entries:
            # On one machine, the folder `torchrun` contains the error files of torchrun.
            return sorted(each.name for each in entries if each.is_dir(follow_symlinks=False) and _is_node(each.path))
    except OSError:
        return []


def _is_node(path: str) -> bool:
    return os.path.exists(os.path.join(path, OUTPUT))


def _path(directory: str, node: str, rank: int) -> str:
    return os.path.join(directory, RANKS, node, f"{rank}.log")


def _written(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
