"""Read the attempts of a job from slurm.log, and find why Slurm started it again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tui_workbench.targets.slurm.batch import ATTEMPT_LINE
from tui_workbench.targets.slurm.listing import Attempt

# Lines of slurmstepd when it ends a job (slurm/src/slurmd/slurmstepd/req.c).
_ENDED = re.compile(r"error: \*\*\* JOB \S+ ON \S+ CANCELLED AT \S+ DUE TO (.+?) \*\*\*")
_CAUSES = (
    ("PREEMPTION", "a job with a higher priority took its nodes"),
    ("NODE FAILURE", "a node of the job failed"),
    ("JOB REQUEUE", "the job was requeued"),
)
# Lines of srun about the step; it then exits with 1 (0 after a node failure in Slurm 22.05).
_NODE_FAILURE = re.compile(r"srun: error: Node failure on (\S+)")
_OUT_OF_MEMORY = re.compile(r"srun: error: \S+: tasks? \S+: Out Of Memory")
_BEGINNING = ATTEMPT_LINE.partition("%")[0]


def cause_of(number: int, attempts: Mapping[int, Attempt], lines: Sequence[str]) -> str:
    """Return the cause of the end of the attempt before attempt `number`, from the lines of slurm.log.

    A failed node may write no line: it is the cause if the log names none and the attempt before has no exit code.
    """
    earlier = max((each for each in attempts if each < number), default=0)
    if not earlier:
        return "the previous start failed"
    end = _place(lines, number, attempts)
    own = lines[max(0, _place(lines, earlier, attempts)) : end if end >= 0 else len(lines)]
    before = attempts[earlier]
    node = failed_node(own) or (before.node if before.exit_code is None else "")
    return last_cause(own) or (f"node {node} failed" if node else "the job was requeued")


def was_interrupted(attempts: Mapping[int, Attempt], lines: Sequence[str]) -> bool:
    """Return True if slurm.log says that Slurm ended the last attempt."""
    return bool(attempts) and bool(last_cause(lines[max(0, _place(lines, max(attempts), attempts)) :]))


def last_attempt(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of the last attempt; all lines of a job that cannot start again."""
    start = max((number for number, line in enumerate(lines, 1) if line.startswith(_BEGINNING)), default=0)
    return lines[start:]


def last_cause(lines: Sequence[str]) -> str:
    """Return the cause that slurm.log names when Slurm ends a job for reasons outside the job; "" if it names none."""
    found = [match[1] for line in lines if (match := _ENDED.search(line))]
    return next((cause for words, cause in _CAUSES if found and found[-1].startswith(words)), "")


def failed_node(lines: Sequence[str]) -> str:
    """Return the failed node that srun has reported; "" if none."""
    return next((match[1] for line in lines if (match := _NODE_FAILURE.fullmatch(line))), "")


def state_of_step(lines: Sequence[str]) -> str:
    """Return the state in which the step has ended according to srun; "" if the script has ended by itself."""
    if failed_node(lines):
        return "NODE_FAIL"
    return "OUT_OF_MEMORY" if any(map(_OUT_OF_MEMORY.fullmatch, lines)) else ""


def _place(lines: Sequence[str], number: int, attempts: Mapping[int, Attempt]) -> int:
    """Return the index of the line that an attempt writes when it begins; -1 if it is missing."""
    line = ATTEMPT_LINE % (number, attempts[number].node)
    return lines.index(line) if line in lines else -1
