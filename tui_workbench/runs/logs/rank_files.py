"""Find the output files of the ranks of a run with torchrun."""

from __future__ import annotations

import os

from tui_workbench.core.errors import UsageError
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.targets.hosts.supervisor import RANKS


def ranks_of(directory: str) -> tuple[int, ...]:
    """Return the ranks that have files in the run directory; empty for a run without torchrun."""
    try:
        names = os.listdir(os.path.join(directory, RANKS))
    except OSError:
        return ()
    return tuple(sorted(int(name[:-4]) for name in names if name.endswith(".log") and name[:-4].isdecimal()))


def rank_log(directory: str, rank: int) -> str:
    """Return the path of the output file of a rank."""
    return os.path.join(directory, RANKS, f"{rank}.log")


def file_of_rank(directory: RunDirectory, rank: int) -> str:
    """Return the path of a rank's file, which an active run may create later. Raises UsageError for an unknown rank."""
    ranks = ranks_of(directory.path)
    wanted = directory.read_record().spec.run_configuration.processes_per_node
    may_come = not directory.status().end and (wanted == "gpus" or (wanted.isdigit() and rank < int(wanted)))
    if rank in ranks or may_come:
        return rank_log(directory.path, rank)
    if ranks:
        raise UsageError(f"the run has no rank {rank}", remedy=f"Choose one of: {', '.join(map(str, ranks))}.")
    raise UsageError(
        "the run has no ranks, because torchrun has not started its script",
        remedy="To start a run with torchrun, set `ProcessesPerNode` in its run configuration.",
    )
