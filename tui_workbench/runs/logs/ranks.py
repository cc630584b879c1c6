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

from tui_workbench.core.files import read_end
from tui_workbench.core.model import RunState
from tui_workbench.runs.logs.log_traceback import MOST_CHARACTERS, last_traceback, shown
from tui_workbench.runs.logs.rank_files import AGAIN, current_nodes, rank_path, ranks_by_node, torchrun_logs
from tui_workbench.runs.store.rundir import Ending
from tui_workbench.targets.docker.container import ONE_WAS
from tui_workbench.targets.hosts import supervisor

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
    (re.compile(r"ValueError: Cuda is not available"), "ProcessesPerNode is gpus, but PyTorch sees no GPU"),
    (re.compile(r"No module named '?torch'?(?!\.)"), "the Python of the run has no PyTorch; install torch in it"),
    (
        re.compile(r"No module named '?torch\.distributed\.run"),
        "the PyTorch of the run is older than 1.9, the first version with torchrun",
    ),
    (
        re.compile(r"RendezvousConnectionError|client socket has (timed out|failed)"),
        "torchrun on a node cannot connect to the first node; the nodes must accept TCP connections from each other",
    ),
    (re.compile(r"RendezvousTimeoutError"), "torchrun has not started on all nodes"),
)
"""Errors of torchrun that the script did not cause, with their meaning."""


class Cause(NamedTuple):
    """The rank that failed first, with its exit code or the negative number of a signal."""

    rank: int
    code: int
    node: str = ""  # only on several nodes
    time: str = ""  # when torchrun noticed the failure, to the second

    @property
    def label(self) -> str:
        return f"rank {self.rank} on {self.node}" if self.node else f"rank {self.rank}"


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


def cause_of(directory: str) -> Cause | None:
    """Return the rank that failed first according to torchrun, or None if it is unknown."""
    read = (_cause_in(_end_of(path), node) for node, path in torchrun_logs(directory).items())
    causes = [cause for cause in read if cause is not None]
    # The ranks of other nodes often fail in the same second, because they have lost the connection.
    return min(causes, key=lambda cause: (_is_consequence(directory, cause), cause.time), default=None)


def _cause_in(output: str, node: str) -> Cause | None:
    """Return the cause that the last summary in the output of torchrun names, or None without a complete summary."""
    _, heading, summary = f"\n{output}".rpartition(_ROOT_CAUSE)
    lines = summary.split("\n", _CAUSE_LINES)[:_CAUSE_LINES] if heading else []
    rank, code, time = (next(filter(None, map(pattern.match, lines)), None) for pattern in (_RANK, _CODE, _TIME))
    if rank is None or code is None:
        return None
    return Cause(int(rank[1]), int(code[1]), node, time[1] if time is not None else "")


def _is_consequence(directory: str, cause: Cause) -> bool:
    """Return True if the rank probably failed because it has lost the connection to another rank.

    PyTorch also aborts such a rank (SIGABRT). torchrun ends the ranks of a canceled run with SIGTERM.
    """
    if cause.code < 0:
        return cause.code in (-signal.SIGABRT, -signal.SIGTERM)
    return bool(_CONNECTION.search(_raised_by(rank_path(directory, cause.node, cause.rank))))


def with_cause(directory: str, ending: Ending) -> Ending:
    """Return the ending. If the run failed, its reason is the error of the rank that failed first, or of torchrun.

    If no error is found, the reason does not change.
    """
    if ending.state != RunState.FAILED or not ending.exit_code:
        return ending
    cause = cause_of(directory)
    reason = _reason_of(directory, cause) if cause is not None else _torchrun_reason(directory)
    exit_text = supervisor.describe_exit(ending.exit_code)
    if cause is None and not reason and ending.exit_code > 128:
        reason = f"torchrun was {exit_text}"
    if not reason or not ending.reason.startswith(exit_text):
        return ending
    rest = ending.reason[len(exit_text) :]
    if cause is not None and cause.code == -signal.SIGKILL and rest.startswith(ONE_WAS):
        return ending._replace(reason=f"{cause.label} was {rest[len(ONE_WAS) :]}")
    return ending._replace(reason=reason + rest)


def _reason_of(directory: str, cause: Cause) -> str:
    if cause.code < 0:
        return f"{cause.label} was {supervisor.describe_exit(128 - cause.code)}"
    raised = _raised_by(rank_path(directory, cause.node, cause.rank))
    return f"{cause.label}: {raised or supervisor.describe_exit(cause.code)}"


def _raised_by(path: str) -> str:
    """Return the exception that ended a rank, and its location, or "" if the log contains no traceback."""
    traceback = last_traceback(path)
    if traceback is None:
        return ""
    text, frame = shown(traceback), traceback.frame
    return f"{text} ({os.path.basename(frame.file)}:{frame.line})" if frame is not None else text


def _torchrun_reason(directory: str) -> str:
    outputs = [_end_of(path) for path in torchrun_logs(directory).values()]
    meaning = next((meaning for pattern, meaning in _TORCHRUN_ERRORS if any(map(pattern.search, outputs))), "")
    if meaning:
        return meaning
    lasts = [output.strip().rpartition("\n")[2] for output in outputs]
    last = next((line for line in lasts if "Error" in line.partition(" ")[0]), "")
    return f"torchrun: {last[:MOST_CHARACTERS]}" if last else ""


def _end_of(path: str) -> str:
    """Return the end of the output of torchrun in the current attempt, or "" if the file cannot be read."""
    try:
        output = read_end(path, TAIL_BYTES)
    except OSError:
        return ""
    return output.decode("utf-8", "surrogateescape").rpartition(AGAIN)[2]
