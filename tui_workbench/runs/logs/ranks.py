"""The ranks of a run under torchrun: what each has written, which of them failed first, and of what.

Each rank's file holds its own bytes; `output.log` holds the lines of all, marked with their rank. Everything here is
read from these files, on the machine where the run's directory is.
"""

from __future__ import annotations

import os
import re
import signal
from typing import NamedTuple

from tui_workbench.core.files import open_regular
from tui_workbench.core.model import RunState
from tui_workbench.runs.logs.log_traceback import MOST_CHARACTERS, last_traceback, shown
from tui_workbench.runs.logs.rank_files import rank_log, ranks_of
from tui_workbench.runs.store.rundir import Ending
from tui_workbench.targets.docker.container import ONE_WAS
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.supervisor import RANKS

TORCHRUN_LOG = "torchrun.log"
"""What torchrun itself has said."""

TAIL_BYTES = 1 << 17
"""Of the end of torchrun's words: its summary has some lines for each rank."""

# PyTorch 1.9 wrote `rank: 1`, later versions write `rank      : 1`.
_ROOT_CAUSE = re.compile(r"Root Cause.*?\n\s*rank\s*: (\d+).*?\n\s*exitcode\s*: (-?\d+)", re.DOTALL)

_KNOWN = (
    (re.compile(r"ValueError: Cuda is not available"), "ProcessesPerNode is gpus, and PyTorch sees no GPU"),
    (re.compile(r"No module named '?torch'?(?!\.)"), "its Python has no PyTorch: install torch there"),
    (re.compile(r"No module named '?torch\.distributed\.run"), "its PyTorch is older than 1.9, which brought torchrun"),
)
"""What torchrun says when there is nothing wrong with the script."""


class Cause(NamedTuple):
    """The rank that ended first, and how: an exit code, or the negative number of a signal."""

    rank: int
    code: int


class Ranks(NamedTuple):
    """The ranks of a run; `failed` is the one that failed first, -1 for none or when it is not known."""

    numbers: tuple[int, ...] = ()
    failed: int = -1


def look_at(directory: str) -> Ranks:
    """The ranks of the run at `directory`, as far as it has come."""
    numbers = ranks_of(directory)
    cause = cause_of(directory) if numbers else None
    return Ranks(numbers, cause.rank if cause is not None else -1)


def mark_of(rank: int) -> str:
    """What stands before the rank's lines in output.log."""
    return f"[rank{rank}]: "


def cause_of(directory: str) -> Cause | None:
    """The rank that failed first, as torchrun tells it; None when it tells of none."""
    found = _ROOT_CAUSE.findall(_torchrun_s_words(directory))
    return Cause(int(found[-1][0]), int(found[-1][1])) if found else None


def explained(directory: str, ending: Ending) -> Ending:
    """The ending of a run under torchrun with what its failed rank died of in place of torchrun's own exit code."""
    if ending.state != RunState.FAILED or not ending.exit_code:
        return ending
    cause = cause_of(directory)
    reason = _reason_of(directory, cause) if cause is not None else _torchrun_s_reason(directory)
    usual = supervisor.describe_exit(ending.exit_code)
    if cause is None and not reason and ending.exit_code > 128:
        reason = f"torchrun was {usual}"
    if not reason or not ending.reason.startswith(usual):
        return ending
    rest = ending.reason[len(usual) :]
    if cause is not None and cause.code == -signal.SIGKILL and rest.startswith(ONE_WAS):
        return ending._replace(reason=f"rank {cause.rank} was {rest[len(ONE_WAS) :]}")
    return ending._replace(reason=reason + rest)


def _reason_of(directory: str, cause: Cause) -> str:
    if cause.code < 0:
        return f"rank {cause.rank} was {supervisor.describe_exit(128 - cause.code)}"
    raised = _raised_by(rank_log(directory, cause.rank))
    return f"rank {cause.rank}: {raised or supervisor.describe_exit(cause.code)}"


def _raised_by(path: str) -> str:
    """The exception that ended a rank, and where; "" when its log has no traceback."""
    traceback = last_traceback(path)
    if traceback is None:
        return ""
    text, frame = shown(traceback), traceback.frame
    return f"{text} ({os.path.basename(frame.file)}:{frame.line})" if frame is not None else text


def _torchrun_s_reason(directory: str) -> str:
    words = _torchrun_s_words(directory)
    known = next((meaning for pattern, meaning in _KNOWN if pattern.search(words)), "")
    if known:
        return known
    last = words.strip().rpartition("\n")[2]
    return f"torchrun: {last[:MOST_CHARACTERS]}" if "Error" in last.partition(" ")[0] else ""


def _torchrun_s_words(directory: str) -> str:
    try:
        with open_regular(os.path.join(directory, RANKS, TORCHRUN_LOG)) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            return file.read().decode("utf-8", "surrogateescape")
    except OSError:
        return ""
