"""Find the rank of a run with torchrun that failed first, and its error.

Each rank has a file with its output. `output.log` contains the lines of all ranks, with the rank as prefix.
"""

from __future__ import annotations

import os
import re
import signal
from typing import NamedTuple

from tui_workbench.core.files import read_end
from tui_workbench.core.model import RunState
from tui_workbench.runs.logs.log_traceback import MOST_CHARACTERS, last_traceback, shown
from tui_workbench.runs.logs.rank_files import rank_log, ranks_of
from tui_workbench.runs.store.rundir import Ending
from tui_workbench.targets.docker.container import ONE_WAS
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.supervisor import RANKS

TORCHRUN_LOG = "torchrun.log"  # the output of torchrun itself
TAIL_BYTES = 1 << 17  # bytes at the end of torchrun's output that are read; the summary has some lines for each rank

# PyTorch 1.9 wrote `rank: 1`, later versions write `rank      : 1`.
_ROOT_CAUSE = re.compile(r"Root Cause.*?\n\s*rank\s*: (\d+).*?\n\s*exitcode\s*: (-?\d+)", re.DOTALL)

_KNOWN = (
    (re.compile(r"ValueError: Cuda is not available"), "ProcessesPerNode is gpus, but PyTorch sees no GPU"),
    (re.compile(r"No module named '?torch'?(?!\.)"), "the Python of the run has no PyTorch; install torch in it"),
    (
        re.compile(r"No module named '?torch\.distributed\.run"),
        "the PyTorch of the run is older than 1.9, the first version with torchrun",
    ),
)
"""Errors of torchrun that the script did not cause, with their meaning."""


class Cause(NamedTuple):
    """The rank that failed first, with its exit code or the negative number of a signal."""

    rank: int
    code: int


class Ranks(NamedTuple):
    """The ranks of a run; `failed` is the first failed rank, or -1."""

    numbers: tuple[int, ...] = ()
    failed: int = -1


def read_ranks(directory: str) -> Ranks:
    """Return the current ranks of the run at `directory`."""
    numbers = ranks_of(directory)
    cause = cause_of(directory) if numbers else None
    return Ranks(numbers, cause.rank if cause is not None else -1)


def rank_prefix(rank: int) -> str:
    """Return the prefix of the lines of a rank in output.log."""
    return f"[rank{rank}]: "


def cause_of(directory: str) -> Cause | None:
    """Return the rank that failed first according to torchrun, or None if it is unknown."""
    found = _ROOT_CAUSE.findall(_torchrun_output(directory))
    return Cause(int(found[-1][0]), int(found[-1][1])) if found else None


def with_cause(directory: str, ending: Ending) -> Ending:
    """Return the ending, with the error of the rank that failed first instead of the exit code of torchrun."""
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
        return ending._replace(reason=f"rank {cause.rank} was {rest[len(ONE_WAS) :]}")
    return ending._replace(reason=reason + rest)


def _reason_of(directory: str, cause: Cause) -> str:
    if cause.code < 0:
        return f"rank {cause.rank} was {supervisor.describe_exit(128 - cause.code)}"
    raised = _raised_by(rank_log(directory, cause.rank))
    return f"rank {cause.rank}: {raised or supervisor.describe_exit(cause.code)}"


def _raised_by(path: str) -> str:
    """Return the exception that ended a rank, and its location, or "" if the log contains no traceback."""
    traceback = last_traceback(path)
    if traceback is None:
        return ""
    text, frame = shown(traceback), traceback.frame
    return f"{text} ({os.path.basename(frame.file)}:{frame.line})" if frame is not None else text


def _torchrun_reason(directory: str) -> str:
    output = _torchrun_output(directory)
    known = next((meaning for pattern, meaning in _KNOWN if pattern.search(output)), "")
    if known:
        return known
    last = output.strip().rpartition("\n")[2]
    return f"torchrun: {last[:MOST_CHARACTERS]}" if "Error" in last.partition(" ")[0] else ""


def _torchrun_output(directory: str) -> str:
    try:
        output = read_end(os.path.join(directory, RANKS, TORCHRUN_LOG), TAIL_BYTES)
    except OSError:
        return ""
    return output.decode("utf-8", "surrogateescape")
