"""Find the outcome of a job whose exit code is missing or does not show the cause."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from tui_workbench.core.files import open_below, read_below, write_below
from tui_workbench.targets.base.values import Outcome
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.slurm import states
from tui_workbench.targets.slurm.attempts import last_attempt, last_cause, state_of_step
from tui_workbench.targets.slurm.batch import NOT_STARTED, SETUP_FAILED, SLURM_LOG
from tui_workbench.targets.slurm.cluster import LoginHost
from tui_workbench.targets.slurm.squeue import CLEAN, parse_accounting
from tui_workbench.targets.slurm.submission import ANSWER_SECONDS

INFO = "slurm.json"
"""The file with facts about a run's job, in the run's directory on this machine."""

TAIL_BYTES = 1 << 14
"""Maximum number of bytes that are read from the end of slurm.log."""

KILLED_FROM = 129
"""Exit codes from this one on stand for signals, which Slurm may have sent."""

TERMINATED = 143
"""The exit code of a script that SIGTERM has ended."""

SRUN_FAILED = 1
"""The exit code of srun if Slurm has ended the step. The script may have the same exit code."""

NEAR_LIMIT = "Slurm sent SIGTERM because the job was close to its time limit: increase `time`, or save checkpoints"

_FORGOTTEN = "Slurm no longer knows the job"
_NOT_SAVED = ": slurmctld may have failed before it saved the job"
_NOTHING_WRITTEN = (
    "the compute node wrote no slurm.log, so it may not share `runRoot`: "
    "`workbench-tui computetarget check NAME --job` checks this"
)

# $1: IDs of jobs, separated by commas.
_ACCOUNTING = f"""\
{CLEAN}
exec sacct -n -P -X -S now-30days -j "$1" -o JobIDRaw,State,ExitCode
"""


def accounting(host: LoginHost, job_ids: Sequence[str]) -> dict[str, tuple[str, int | None]]:
    """Return the state and exit code of jobs, by ID; empty without accounting. Raises TargetUnreachable.

    Without slurmdbd, sacct fails at once.
    """
    done = host.ask(_ACCOUNTING, ",".join(job_ids), timeout=ANSWER_SECONDS)
    lines: dict[str, list[str]] = {}
    for line in done.text.split("\n") if done.code == 0 else ():
        job_id, _, rest = line.partition("|")
        lines.setdefault(job_id, []).append(rest)
    return {job_id: parse_accounting("\n".join(found)) for job_id, found in lines.items()}


def outcome_with_code(code: int, state: str, directory: str) -> Outcome:
    """Return the outcome of a run with an exit code whose job ended in `state` ("" if unknown)."""
    lines = last_attempt(tail(directory))
    if NOT_STARTED in lines[-3:]:
        said = next((line for line in reversed(lines) if line.startswith("srun: error: ")), "")
        return Outcome(None, "; ".join(filter(None, ("Slurm did not start the script", said))), has_failed=True)
    if code == SRUN_FAILED and (ended := state_of_step(lines)):
        return Outcome(None, states.describe_end(ended), has_failed=True)
    cause = states.describe_end(state) if code else ""
    if code >= KILLED_FROM and not cause and (found := last_cause(lines)):
        cause = f"{found}; with `requeue: true` below `slurm`, the script would run again"
    failed_setup = next((line.partition(": ")[2] for line in lines if line.startswith(SETUP_FAILED)), "")
    reason = failed_setup or "; ".join(filter(None, (cause, supervisor.describe_exit(code))))
    return Outcome(code, reason)


def outcome_without_code(state: str, code: int | None, directory: str, *, has_started: bool) -> Outcome:
    """Return the outcome of a run that wrote no exit code, by its job's state and exit code ("", None if unknown)."""
    if code:
        return outcome_with_code(code, state, directory)
    said = (last_attempt(tail(directory)) or [""])[-1]
    forgotten = _FORGOTTEN if has_started else _FORGOTTEN + _NOT_SAVED
    reason = states.describe_end(state) or (f"the job ended in the state {state}" if state else forgotten)
    details = "its exit code was not written" if has_started else "its script did not start"
    if said:
        details += f"; slurm.log: {said}"
    elif state == "FAILED" and not has_started:
        details += f"; {_NOTHING_WRITTEN}"
    return Outcome(None, f"{reason}; {details}", has_failed=bool(state) and state != "COMPLETED")


def tail(directory: str) -> list[str]:
    """Return the last lines of the copy of slurm.log."""
    try:
        with open(open_below(directory, SLURM_LOG), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return file.read().decode("utf-8", "replace").strip().split("\n")
    except OSError:
        return []


def read_info(directory: str) -> dict[str, Any]:
    """Read the facts about a run's job: `job`, its ID, and after its end `reason` and `ended`. Empty if unknown."""
    try:
        found = json.loads(read_below(directory, INFO, supervisor.LARGEST * 4))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_info(directory: str, **facts: object) -> None:
    """Add facts about a run's job to its info file. Raises OSError."""
    write_below(directory, INFO, json.dumps({**read_info(directory), **facts}).encode() + b"\n")


def outcome_here(directory: str) -> Outcome | None:
    """Return the outcome of a run that is recorded on this machine; None if there is none."""
    info = read_info(directory)
    code = supervisor.read_exit_code(directory)
    if code is not None:
        return Outcome(code, str(info.get("reason") or supervisor.describe_exit(code)))
    if "ended" not in info:
        return None
    return Outcome(None, str(info.get("reason", "")), has_failed=info["ended"] == "failed")


def keep_outcome(directory: str, outcome: Outcome) -> None:
    """Record the outcome of a run on this machine, unless one is recorded. Raises OSError."""
    if outcome_here(directory) is not None:
        return
    if outcome.exit_code is None:
        write_info(directory, reason=outcome.reason, ended="failed" if outcome.has_failed else "unknown")
    else:
        write_info(directory, reason=outcome.reason)
        write_below(directory, supervisor.EXIT, b"%-4d\n" % outcome.exit_code)
