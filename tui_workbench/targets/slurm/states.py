"""The states of Slurm jobs, and the reasons for which a job waits or ended.

The names are those of squeue(1), sections "JOB STATE CODES" and "JOB REASON CODES", of Slurm 20.11 to 24.11. Names that
are not listed here are shown unchanged.
"""

from __future__ import annotations

import re

from tui_workbench.config.schema import retry
from tui_workbench.core import causes
from tui_workbench.core.causes import Cause, Causes

WAITING = frozenset(("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"))
"""States of a job that waits to run, or to run again."""

ACTIVE = frozenset(
    ("CONFIGURING", "RUNNING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED", "SUSPENDED")
)
"""States of a job that has nodes. COMPLETING can take a long time, until all processes have ended."""

_ENDS = {
    "COMPLETED": "",
    "FAILED": "",
    "TIMEOUT": causes.JOB_TIME_LIMIT,
    "DEADLINE": causes.JOB_DEADLINE,
    "OUT_OF_MEMORY": causes.JOB_OUT_OF_MEMORY,
    "NODE_FAIL": causes.JOB_NODE_FAILED,
    "BOOT_FAIL": causes.JOB_NODE_NOT_BOOTED,
    "PREEMPTED": causes.JOB_PREEMPTED,
    "CANCELLED": causes.JOB_CANCELED,
    "REVOKED": causes.JOB_REVOKED,
}
"""The kinds of causes of the end of a job, by state; "" for a state that names no cause."""

RETRY_CAUSES = {
    "TIMEOUT": retry.TIMEOUT,
    "DEADLINE": retry.TIMEOUT,
    "OUT_OF_MEMORY": retry.OUT_OF_MEMORY,
    "NODE_FAIL": retry.LOST,
    "BOOT_FAIL": retry.LOST,
    "PREEMPTED": retry.PREEMPTED,
    "CANCELLED": "",
}
"""The values of `Retry.on` for the ends of jobs; "" if the run must not start again. After other ends, the exit code
decides."""

REQUEUED = "REQUEUED"

CONTINUED = frozenset(("PREEMPTED", "NODE_FAIL", REQUEUED))
"""Causes after which Slurm may put a job back in its queue."""

ENDED = frozenset(_ENDS) - {"REVOKED"}
"""States of a job that has ended. A REVOKED job runs on another cluster; a job in an unknown state has not ended."""

BY_ITSELF = frozenset(state for state, cause in _ENDS.items() if not cause)
"""States of a job whose script has ended by itself, so that the job was not waiting for another start."""

_NEVER = "it never starts: cancel the run, and"

_REASONS = {
    "AccountNotAllowed": f"its partition does not allow its account; {_NEVER} set `slurm.account` or `slurm.partition`",
    "AssociationJobLimit": "your account has reached its limit of running jobs",
    "BadConstraints": f"no node satisfies the constraints of the job; {_NEVER} correct `slurm`",
    "BeginTime": "it waits for its start time",
    "Cleaning": "an earlier run of the job is being cleaned up",
    "Dependency": "it waits for another job",
    "DependencyNeverSatisfied": "it waits for a job that failed, and will never start",
    "FrontEndDown": "the front-end node is down",
    "InactiveLimit": "it was inactive for too long",
    "InvalidAccount": "its account is not valid",
    "InvalidQOS": "its QOS is not valid",
    "JobArrayTaskLimit": "its sweep has reached its limit of running jobs",
    "JobHeldAdmin": "an administrator holds it",
    "JobHeldUser": "you hold it; `scontrol release` lets it start",
    "Licenses": "it waits for a license",
    "NodeDown": "a node that it needs is down",
    "PartitionConfig": "its request exceeds the limits of its partition",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition is inactive",
    "PartitionNodeLimit": f"it requests more nodes than its partition has or allows; unless nodes are down, {_NEVER} "
    "set `slurm.nodes` lower",
    "PartitionTimeLimit": f"its time limit is longer than its partition allows; {_NEVER} set `slurm.time` lower",
    "Priority": "jobs with a higher priority come first",
    "QOSJobLimit": "its QOS has reached its limit of running jobs",
    "QOSResourceLimit": "its QOS has reached its limit of resources",
    "QOSTimeLimit": "its QOS has reached its time limit",
    "ReqNodeNotAvail": "a node that it requests is not available",
    "Reservation": "its reservation has not begun",
    "Resources": "no node is free yet",
    "SchedDefer": "it is considered in the next scheduling cycle",
    "launch_failed_requeued_held": "its start failed, and Slurm holds it; ask an administrator to release it",
    "job_requeued_in_held_state": "it was requeued and is held; `scontrol release` lets it start",
}

# QOSMaxJobsPerUserLimit, AssocGrpGRES, AssocMaxCpuPerJobLimit ...
_LIMIT = re.compile(r"(QOS|Assoc)(Grp|Max|Min)?(.*?)(Limit)?")
_OWNERS = {"QOS": "its QOS", "Assoc": "its account"}


def base_state(text: str) -> str:
    """Return a state without the suffixes in `CANCELLED by 1000` and `CANCELLED+`."""
    return text.strip().partition(" ")[0].rstrip("+*$~#!%@^-")


def cause_of_attempt(state: str) -> Causes:
    """Return why an attempt of a job ended; no cause if the state names none."""
    kind = causes.JOB_REQUEUED if state == REQUEUED else _ENDS.get(state, "")
    return (Cause(kind),) if kind else ()


def cause_of_end(state: str) -> Causes:
    """Return why a job ended, with the state; no cause if the state names none."""
    kind = _ENDS.get(state, "")
    return (Cause(kind, {"state": state}),) if kind else ()


def describe_waiting(state: str, reason: str) -> str:
    """Describe why a job waits, followed by the reason's code.

    Without a reason, return the state, or "" if it is PENDING.
    """
    code = reason.strip("()").partition(",")[0].strip()
    if code in ("", "None"):
        return "" if state == "PENDING" else state
    # squeue and sacct of some versions write spaces in place of underscores.
    text = _REASONS.get(code.replace(" ", "_")) or _limit(code)
    return f"{text} ({code})" if text else code


def _limit(code: str) -> str:
    match = _LIMIT.fullmatch(code)
    if match is None:
        return ""
    resource = " ".join(re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]*", match[3])).lower()
    return f"{_OWNERS[match[1]]} has reached its limit of {resource}" if resource else ""
