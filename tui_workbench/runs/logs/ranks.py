"""Find the rank that failed first in a run with torchrun, and the error of this rank.

Each rank has a file with its output. `output.log` contains the lines of all ranks, with the rank as prefix. On several
nodes, the torchrun process of each node names the rank of this node that failed first.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping
from typing import NamedTuple

from tui_workbench.core import causes
from tui_workbench.core.causes import Cause, is_exit
from tui_workbench.core.files import read_end
from tui_workbench.core.model import RunState
from tui_workbench.runs.logs.log_traceback import MOST_CHARACTERS, last_traceback, shown
from tui_workbench.runs.logs.rank_files import AGAIN, current_nodes, rank_path, ranks_by_node, torchrun_logs
from tui_workbench.runs.store.rundir import Ending

TAIL_BYTES = 1 << 17  # bytes at the end of torchrun's output that are read; the summary has some lines for each rank

_ROOT_CAUSE = "\nRoot Cause"
_CAUSE_LINES = 10  # number of lines after the heading that may contain the values
# PyTorch 1.9 wrote `rank: 1`, later versions write `rank      : 1`.
_RANK = re.compile(r"\s*rank\s*: ([0-9]{1,9})\b")
_CODE = re.compile(r"\s*exitcode\s*: (-?[0-9]{1,9})\b")
_TIME = re.compile(r"\s*time\s*: (\S+)")

_CONNECTION = re.compile(
    r"Connection (closed|reset|refused)|[Bb]roken pipe|Socket closed|NCCL error|ncclRemoteError|"
    r"Dist(Backend|Network|Store)Error"
)
"""Errors of a rank that has lost the connection to another rank (messages of Gloo, NCCL and the store of PyTorch)."""

_TORCHRUN_ERRORS = (
    (re.compile(r"ValueError: Cuda is not available"), causes.TORCHRUN_NO_GPU),
    (re.compile(r"No module named '?torch'?(?!\.)"), causes.TORCHRUN_NO_TORCH),
    (re.compile(r"No module named '?torch\.distributed\.run"), causes.TORCHRUN_OLD),
    (re.compile(r"RendezvousConnectionError|client socket has (timed out|failed)"), causes.TORCHRUN_NO_CONNECTION),
    (re.compile(r"RendezvousTimeoutError"), causes.TORCHRUN_NOT_ON_ALL),
)
"""Errors of torchrun that the script did not cause, with their kinds."""


class FailedRank(NamedTuple):
    """The rank that failed first, with its exit code or the negative number of a signal."""

    rank: int
    code: int
    node: str = ""  # only on several nodes
    time: str = ""  # when torchrun noticed the failure, to the second

    @property
    def facts(self) -> dict[str, str | int]:
        return {"rank": self.rank, "code": self.code, **({"node": self.node} if self.node else {})}


class Ranks(NamedTuple):
    """The ranks of a run by node (see `ranks_by_node`); `failed` is the first failed rank, or -1."""

    by_node: Mapping[str, tuple[int, ...]] = {}
    failed: int = -1
    current: Mapping[int, str] = {}  # the current node of each rank: another start of a job may use other nodes

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(self.current)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes; empty for a run on one machine."""
        return tuple(filter(None, self.by_node))


def read_ranks(directory: str) -> Ranks:
    """Return the current ranks of the run at `directory`."""
    by_node = ranks_by_node(directory)
    cause = cause_of(directory) if by_node else None
    return Ranks(by_node, cause.rank if cause is not None else -1, current_nodes(directory, by_node))


def rank_prefix(rank: int) -> str:
    """Return the prefix of the lines of a rank in output.log."""
    return f"[rank{rank}]: "


def cause_of(directory: str) -> FailedRank | None:
    """Return the rank that failed first according to torchrun, or None if it is unknown."""
    read = (_cause_in(_end_of(path), node) for node, path in torchrun_logs(directory).items())
    failed = [cause for cause in read if cause is not None]
    # The ranks of other nodes often fail in the same second, because they have lost the connection.
    return min(failed, key=lambda cause: (_is_consequence(directory, cause), cause.time), default=None)


def _cause_in(output: str, node: str) -> FailedRank | None:
    """Return the cause that the last summary in the output of torchrun names, or None without a complete summary."""
    _, heading, summary = f"\n{output}".rpartition(_ROOT_CAUSE)
    lines = summary.split("\n", _CAUSE_LINES)[:_CAUSE_LINES] if heading else []
    rank, code, time = (next(filter(None, map(pattern.match, lines)), None) for pattern in (_RANK, _CODE, _TIME))
    if rank is None or code is None:
        return None
    return FailedRank(int(rank[1]), int(code[1]), node, time[1] if time is not None else "")


def _is_consequence(directory: str, cause: FailedRank) -> bool:
    """Return True if the rank probably failed because it has lost the connection to another rank.

    PyTorch also aborts such a rank (SIGABRT). torchrun ends the ranks of a canceled run with SIGTERM.
    """
    if cause.code < 0:
        return cause.code in (-signal.SIGABRT, -signal.SIGTERM)
    return bool(_CONNECTION.search(str(_raised_by(rank_path(directory, cause.node, cause.rank)).get("error", ""))))


def with_cause(directory: str, ending: Ending) -> Ending:
    """Return the ending. If the run failed, its cause is the error of the rank that failed first, or of torchrun.

    If no error is found, the ending does not change.
    """
    if ending.state != RunState.FAILED or not ending.exit_code:
        return ending
    first, others = ending.causes[:1], ending.causes[1:]
    if not any(map(is_exit, first)):
        return ending
    failed = cause_of(directory)
    is_starved = bool(others) and others[0].kind == causes.CHILD_OUT_OF_MEMORY
    if is_starved and failed is not None and failed.code == -signal.SIGKILL:
        starved = Cause(causes.RANK_OUT_OF_MEMORY, {**failed.facts, **others[0].facts})
        return ending._replace(causes=(starved, *others[1:]))
    cause = _cause_of_rank(directory, failed) if failed is not None else _cause_of_torchrun(directory)
    if cause is None and first[0].kind == causes.SIGNAL:
        cause = Cause(causes.TORCHRUN_SIGNAL, first[0].facts)
    return ending._replace(causes=(cause, *others)) if cause is not None else ending


def _cause_of_rank(directory: str, failed: FailedRank) -> Cause:
    if failed.code < 0:
        (ended,) = causes.exit_causes(128 - failed.code)
        kind = causes.RANK_SIGNAL if ended.kind == causes.SIGNAL else causes.RANK
        return Cause(kind, {**failed.facts, **ended.facts})
    return Cause(causes.RANK, {**failed.facts, **_raised_by(rank_path(directory, failed.node, failed.rank))})


def _raised_by(path: str) -> dict[str, str | int]:
    """Return the exception that ended a rank, and its location; empty if the log contains no traceback."""
    traceback = last_traceback(path)
    if traceback is None:
        return {}
    frame = traceback.frame
    location: dict[str, str | int] = {"file": os.path.basename(frame.file), "line": frame.line} if frame else {}
    return {"error": shown(traceback), **location}


def _cause_of_torchrun(directory: str) -> Cause | None:
    outputs = [_end_of(path) for path in torchrun_logs(directory).values()]
    for pattern, kind in _TORCHRUN_ERRORS:
        if any(map(pattern.search, outputs)):
            return Cause(kind)
    lasts = [output.strip().rpartition("\n")[2] for output in outputs]
    last = next((line for line in lasts if "Error" in line.partition(" ")[0]), "")
    return Cause(causes.TORCHRUN, {"error": last[:MOST_CHARACTERS]}) if last else None


def _end_of(path: str) -> str:
    """Return the end of the output of torchrun in the current attempt, or "" if the file cannot be read."""
    try:
        output = read_end(path, TAIL_BYTES)
    except OSError:
        return ""
    return output.decode("utf-8", "surrogateescape").rpartition(AGAIN)[2]
