"""Find the outcome of a job whose exit code is missing or does not show the cause, and the reason for a restart."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tui_workbench.config.schema import retry
from tui_workbench.core import causes
from tui_workbench.core.causes import Cause
from tui_workbench.core.errors import storage_errors
from tui_workbench.core.files import open_below, read_below, unlink_below, write_below
from tui_workbench.core.json_values import parse_json
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.slurm import states
from tui_workbench.targets.slurm.batch import (
    ATTEMPT_BEGINNING,
    ATTEMPT_LINE,
    NOT_STARTED,
    SETUP_PROBLEMS,
    SIGNALED,
    SLURM_LOG,
)
from tui_workbench.targets.slurm.cluster import LoginHost
from tui_workbench.targets.slurm.listing import Attempt
from tui_workbench.targets.slurm.squeue import Account, parse_accounting
from tui_workbench.targets.slurm.submission import ANSWER_SECONDS
from tui_workbench.targets.values import Outcome, Times

INFO = "slurm.json"
"""The file with facts about a run's job, in the run's directory on this machine."""

TAIL_BYTES = 1 << 14
"""Maximum number of bytes that are read from the end of slurm.log."""

KILLED_FROM = 129
"""The lowest exit code that stands for a signal. Slurm may have sent the signal."""

TERMINATED = 143
"""The exit code of a script that SIGTERM has ended."""

SRUN_FAILED = 1
"""The exit code of srun if Slurm has ended the step. The script may have the same exit code."""

# Lines of slurmstepd when it ends a job (slurm/src/slurmd/slurmstepd/req.c).
_ENDED = re.compile(r"error: \*\*\* (JOB|STEP) \S+ ON \S+ CANCELLED AT \S+(?: DUE TO (.+?))? \*\*\*")
_STATES = (
    ("PREEMPTION", "PREEMPTED"),
    ("NODE FAILURE", "NODE_FAIL"),
    ("JOB REQUEUE", states.REQUEUED),
    ("TIME LIMIT", "TIMEOUT"),
)
# Lines of srun about the step; it then exits with 1 (0 after a node failure in Slurm 22.05).
_NODE_FAILURE = re.compile(r"srun: error: Node failure on (\S+)")
_OUT_OF_MEMORY = re.compile(r"srun: error: \S+: tasks? \S+: Out Of Memory")
# The line of slurmstepd for a step that it kills without memory cgroups; the numbers are bytes.
_OVER_LIMIT = re.compile(r"slurmstepd\S*: error: .*exceeded memory limit \(\d{1,18} > (\d{1,18})\)")

_NO_TIMES = Times()

_ACCOUNTS = shell_script("targets/slurm/scripts/list_accounts.sh")


def accounting(host: LoginHost, job_ids: Sequence[str]) -> dict[str, Account]:
    """Return the ends of jobs, by ID; empty without accounting. Raises TargetUnreachable.

    Without slurmdbd, sacct fails at once.
    """
    done = host.ask(_ACCOUNTS, ",".join(job_ids), timeout=ANSWER_SECONDS)
    lines: dict[str, list[str]] = {}
    now, *rows = done.text.split("\n")
    for line in rows if done.code == 0 else ():
        job_id, _, rest = line.partition("|")
        lines.setdefault(job_id, []).append(rest)
    return {job_id: parse_accounting("\n".join(ends), now) for job_id, ends in lines.items()}


def outcome_with_code(code: int, state: str, directory: str) -> Outcome:
    """Return the outcome of a run with an exit code whose job ended in `state` ("" if unknown)."""
    lines = last_attempt(tail(directory))
    if NOT_STARTED in lines[-3:]:
        message = next((line for line in reversed(lines) if line.startswith("srun: error: ")), "")
        cause = Cause(causes.JOB_NOT_STARTED, {"error": message} if message else {})
        return Outcome(None, (cause,), has_failed=True, retry=states.RETRY_CAUSES.get(state))
    if code == SRUN_FAILED and (ended := state_of_step(lines)):
        return Outcome(None, states.cause_of_end(ended), has_failed=True, retry=states.RETRY_CAUSES[ended])
    failed_setup = next((line.partition(": ")[2] for line in lines if line.startswith(SETUP_PROBLEMS)), "")
    if failed_setup:
        return Outcome(code, (Cause(causes.JOB_SETUP, {"error": failed_setup}),))
    if code and (limit := _memory_limit(lines)):
        return Outcome(code, (Cause(causes.JOB_MEMORY_LIMIT, {"limit": limit}),), retry=retry.OUT_OF_MEMORY)
    ended = state if states.cause_of_end(state) else state_in_log(lines)
    if code == 0:
        # A script that ends with 0 has completed, but its user may not know that Slurm has asked it to end.
        return Outcome(code, notes=states.cause_of_end(ended) if ended in ("TIMEOUT", "CANCELLED") else ())
    why = states.cause_of_end(ended) or states.cause_of_attempt(ended)
    if ended in states.CONTINUED and ended != state:
        why += (Cause(causes.JOB_NOT_REQUEUED),)
    retry_cause = retry.LOST if ended == states.REQUEUED else states.RETRY_CAUSES.get(ended)
    return Outcome(code, why + causes.exit_causes(code), retry=retry_cause)


def _memory_limit(lines: Sequence[str]) -> str:
    """Return the memory limit of a job that slurmstepd has killed for exceeding it; "" if it has not."""
    limits = [int(match[1]) for line in lines if (match := _OVER_LIMIT.match(line))]
    return f"{limits[0] / (1 << 20):,.0f} MB" if limits else ""


def outcome_without_code(state: str, code: int | None, directory: str, *, has_started: bool) -> Outcome:
    """Return the outcome of a run that wrote no exit code.

    `state` and `code` are the state and the exit code of its job; "" and None if unknown.
    """
    if code:
        return outcome_with_code(code, state, directory)
    lines = last_attempt(tail(directory))
    state = state or state_in_log(lines)
    last_line = (lines or [""])[-1]
    forgotten = Cause(causes.JOB_FORGOTTEN if has_started else causes.JOB_NOT_SAVED)
    ended = (Cause(causes.JOB_ENDED, {"state": state}) if state else forgotten,)
    why = states.cause_of_end(state) or ended
    why += (Cause(causes.EXIT_NOT_WRITTEN if has_started else causes.SCRIPT_NOT_STARTED),)
    if last_line:
        why += (Cause(causes.JOB_LOG, {"error": last_line}),)
    elif state == "FAILED" and not has_started:
        why += (Cause(causes.JOB_NO_LOG),)
    has_failed = bool(state) and state != "COMPLETED"
    return Outcome(None, why, has_failed=has_failed, retry=states.RETRY_CAUSES.get(state))


def got_sigterm(code: int, directory: str) -> bool:
    """Return True if the script of the last attempt got SIGTERM, whatever its exit code is."""
    return code == TERMINATED or SIGNALED in last_attempt(tail(directory))


def tail(directory: str) -> list[str]:
    """Return the last lines of the copy of slurm.log; none without a copy."""
    try:
        with open(open_below(directory, SLURM_LOG), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return file.read(TAIL_BYTES).decode("utf-8", "replace").strip().split("\n")
    except OSError:
        return []


def read_info(directory: str) -> dict[str, Any]:
    """Read the recorded facts about a run's job; empty if none are recorded.

    `job` is the job's ID. After the end of the run, `causes` are those of the outcome, and `cause` is its `retry`.
    Without an exit code, `ended` is `failed` or `unknown`.
    """
    try:
        info = parse_json(read_below(directory, INFO, supervisor.LARGEST * 4))
    except (OSError, ValueError):
        return {}
    return info if isinstance(info, dict) else {}


def write_info(directory: str, **facts: object) -> None:
    """Add facts about a run's job to its info file. Raises OSError."""
    write_below(directory, INFO, json.dumps({**read_info(directory), **facts}).encode() + b"\n")


def times_here(directory: str) -> Times:
    """Return the recorded times of a run that has ended."""
    start, end = (value if isinstance(value, float) else 0.0 for value in map(read_info(directory).get, Times._fields))
    return Times(start, end)


def outcome_here(directory: str) -> Outcome | None:
    """Return the outcome of a run that is recorded on this machine; None without a record."""
    # `keep_outcome` writes the exit code last, so it is read first.
    code = supervisor.read_exit_code(directory)
    info = read_info(directory)
    retry_cause = str(info["cause"]) if info.get("cause") is not None else None
    why = causes.read_causes(info, code)
    if code is not None:
        return Outcome(code, why or causes.exit_causes(code), retry=retry_cause)
    if "ended" not in info:
        return None
    return Outcome(None, why, has_failed=info["ended"] == "failed", retry=retry_cause)


def keep_outcome(directory: str, outcome: Outcome, times: Times = _NO_TIMES) -> None:
    """Record the outcome and times of a run on this machine, unless they are already recorded. Raises OSError."""
    if outcome_here(directory) is not None:
        return
    facts = {**causes.stored(outcome.causes), "cause": outcome.retry, **times._asdict()}
    # A reader takes the exit code for the end of the run, so the exit code is written last.
    if outcome.exit_code is None:
        write_info(directory, **facts, ended="failed" if outcome.has_failed else "unknown")
    else:
        write_info(directory, **facts)
        write_below(directory, supervisor.EXIT, b"%-4d\n" % outcome.exit_code)


def forget(directory: str) -> None:
    """Remove the facts about the job of an earlier attempt. Raises StorageError."""
    with storage_errors("remove", f"{directory}/{INFO}"), contextlib.suppress(FileNotFoundError):
        unlink_below(directory, INFO)


# --- The attempts of a job


def cause_of(number: int, attempts: Mapping[int, Attempt], lines: Sequence[str]) -> Cause:
    """Return the cause of the end of the attempt before attempt `number`, from the lines of slurm.log.

    A failed node may write no line. Its failure is therefore the cause if the log names no cause and the previous
    attempt has no exit code.
    """
    earlier = max((started for started in attempts if started < number), default=0)
    if not earlier:
        return Cause(causes.JOB_START_FAILED)
    end = _beginning_of(lines, number, attempts)
    own = lines[max(0, _beginning_of(lines, earlier, attempts)) : end if end >= 0 else len(lines)]
    before = attempts[earlier]
    node = failed_node(own) or (before.node if before.exit_code is None else "")
    other = Cause(causes.NODE_FAILED, {"node": node}) if node else Cause(causes.JOB_REQUEUED)
    return next(iter(states.cause_of_attempt(state_in_log(own))), other)


def was_interrupted(attempts: Mapping[int, Attempt], lines: Sequence[str]) -> bool:
    """Return True if slurm.log says that Slurm ended the last attempt."""
    if not attempts:
        return False
    return state_in_log(lines[max(0, _beginning_of(lines, max(attempts), attempts)) :]) in states.CONTINUED


def last_attempt(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of the last attempt; all lines of a job that cannot start again."""
    start = max((number for number, line in enumerate(lines, 1) if line.startswith(ATTEMPT_BEGINNING)), default=0)
    return lines[start:]


def state_in_log(lines: Sequence[str]) -> str:
    """Return the state in which Slurm has ended the job, according to slurm.log; "" if it has not, or not the job."""
    matches = [match for line in lines if (match := _ENDED.search(line)) and (match[1] == "JOB" or match[2])]
    if not matches:
        return ""
    cause = matches[-1][2]
    return next((state for words, state in _STATES if cause.startswith(words)), "") if cause else "CANCELLED"


def was_signaled(lines: Sequence[str]) -> bool:
    """Return True if Slurm has ended the step or the job, so that squeue may know why."""
    return any(map(_ENDED.search, lines))


def failed_node(lines: Sequence[str]) -> str:
    """Return the failed node that srun has reported; "" if none."""
    return next((match[1] for line in lines if (match := _NODE_FAILURE.fullmatch(line))), "")


def state_of_step(lines: Sequence[str]) -> str:
    """Return the state in which the step has ended according to srun; "" if the script has ended by itself."""
    if failed_node(lines):
        return "NODE_FAIL"
    return "OUT_OF_MEMORY" if any(map(_OUT_OF_MEMORY.fullmatch, lines)) else ""


def _beginning_of(lines: Sequence[str], number: int, attempts: Mapping[int, Attempt]) -> int:
    """Return the index of the line that an attempt writes when it begins; -1 if it is missing."""
    line = ATTEMPT_LINE % (number, attempts[number].node)
    return lines.index(line) if line in lines else -1
