"""Requests of agents that exceed the limits and wait for an approval of the user.

A request is a file in `agents/requests/` of the user's state directory, named after its number. It contains the plan
that the user reviews, and a fingerprint of everything that the run would use. The plan and the fingerprint never
change: if the project has changed, the request is closed, and a new request has the new plan.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from tui_workbench.config.schema.data_references import data_in_project
from tui_workbench.core.errors import StorageError, UsageError, storage_errors
from tui_workbench.core.files import load_json, write_atomically
from tui_workbench.core.json_values import read_as
from tui_workbench.core.masking import mask_plan, mask_words
from tui_workbench.core.model import RunRequest, RunSpec
from tui_workbench.core.plaintext import visible
from tui_workbench.projects.project import Project
from tui_workbench.runs.agents.ledger import agents_directory
from tui_workbench.runs.agents.limits import gpus_of, machines_of, minutes_of
from tui_workbench.runs.agents.programs import facts_of, program_facts
from tui_workbench.runs.snapshots.contents import room_of
from tui_workbench.runs.snapshots.project_files import Kind, project_files
from tui_workbench.runs.submission.plan_details import plan_text
from tui_workbench.runs.submission.planning import Prepared

WAITING, SUBMITTED, DENIED, CHANGED = "waiting", "submitted", "denied", "changed"

MOST_WAITING = 20
"""Maximum number of requests that wait at the same time."""

LARGEST = 256 << 10
"""Maximum size of the file of a request in bytes."""

MOST_KEPT = 200
"""Maximum number of decided requests that are kept."""


class Approval(NamedTuple):
    """A request, and the decision about it."""

    number: int
    agent: str
    created: float
    project: str  # the folder
    request: RunRequest
    fingerprint: str  # of the files, the configuration and the target
    summary: str  # the run in one line
    plan: str
    reasons: tuple[str, ...]  # why the run needs an approval
    state: str = WAITING
    run_id: str = ""
    answer: str = ""  # the reason that the user gave for a denial
    replaced_by: int = 0  # the request with the new plan, if the project has changed

    @property
    def text(self) -> str:
        """The agent, the reasons and the plan as lines of text."""
        lines = [
            f"request      {self.number} ({self.state})",
            f"agent        {self.agent}",
            f"project      {self.project}",
            f"run          {self.summary}",
            *(f"reason       {reason}" for reason in self.reasons),
        ]
        # An agent could forge lines with the line endings of an argument.
        return "".join(visible(line) + "\n" for line in lines) + f"\n{self.plan}"


def read_approvals() -> list[Approval]:
    """Return all requests, the newest first. Raises StorageError; unreadable files are left out."""
    approvals = [approval for approval in map(_read, _numbers()) if approval is not None]
    return sorted(approvals, key=lambda approval: approval.number, reverse=True)


def find_approval(number: int) -> Approval:
    """Return a request. Raises UsageError if it does not exist, and StorageError if its file is damaged."""
    approval = _read(number)
    if approval is None and os.path.lexists(_path(number)):
        raise StorageError(
            f"request {number} cannot be read",
            remedy="Remove the file. The agent can then request the run again.",
            file=_path(number),
        )
    if approval is None:
        raise UsageError(f"no request {number}", remedy="`workbench-tui agent list` lists the requests.")
    return approval


def find_waiting(number: int) -> Approval:
    """Return a request that waits. Raises UsageError if there is no such request, or if it has been decided."""
    approval = find_approval(number)
    if approval.state != WAITING:
        new = f" Request {approval.replaced_by} has the new plan." if approval.replaced_by else ""
        raise UsageError(
            f"request {number} is not waiting for approval: its state is {approval.state}",
            remedy=f"`workbench-tui agent list` lists the requests that wait.{new}",
        )
    return approval


def add_approval(
    project: Project, prepared: Prepared, request: RunRequest, reasons: Sequence[str], *, replaced: int = 0
) -> Approval:
    """Store a request and return it. If an equal request waits already, return that request instead.

    The caller holds `ledger.exclusive`. `replaced` is the number of the request that the new request replaces; the
    caller closes the old request. Raises UsageError if too many requests wait or the request is too large, and
    StorageError.
    """
    stored = read_approvals()
    waiting = [other for other in stored if other.state == WAITING and other.number != replaced]
    fingerprint = fingerprint_of(project, request, prepared.spec)
    same = next((other for other in waiting if (other.request, other.fingerprint) == (request, fingerprint)), None)
    if same is not None:
        return same
    if len(waiting) >= MOST_WAITING:
        raise UsageError(
            f"too many requests: {MOST_WAITING} are already waiting for approval",
            remedy="The user must approve or deny some of them: `workbench-tui agent list` lists them.",
        )
    # Unreadable files keep their numbers.
    number = max(_numbers(), default=0) + 1
    summary, plan = summary_of(prepared.spec), plan_text(mask_plan(prepared.plan))
    approval = Approval(
        number, request.agent, time.time(), project.root, request, fingerprint, summary, plan, tuple(reasons)
    )
    if len(_content(approval)) > LARGEST:
        raise UsageError(
            f"the request is larger than {LARGEST >> 10} KiB",
            remedy="Pass fewer or shorter arguments and variables, or write them to a file of the project.",
        )
    write_approval(approval)
    for old in [other for other in stored if other.state != WAITING][MOST_KEPT:]:
        os.unlink(_path(old.number))
    return approval


def write_approval(approval: Approval) -> None:
    """Write a request. The caller holds `ledger.exclusive`. Raises StorageError."""
    path = _path(approval.number)
    with storage_errors("write", path):
        os.makedirs(requests_directory(), mode=0o700, exist_ok=True)
        write_atomically(path, _content(approval), mode=0o600)


def summary_of(spec: RunSpec) -> str:
    """Return a run in one line: its script, arguments, target, machines, time limit and GPUs."""
    words = " ".join((spec.script, *mask_words(spec.arguments)))
    gpus = gpus_of(spec)
    counts = f"at most {minutes_of(spec)} min, GPUs: {'unknown' if gpus is None else gpus}"
    return visible(f"{words} on {spec.target.name} ({', '.join(machines_of(spec.target))}), {counts}")


def fingerprint_of(project: Project, request: RunRequest, spec: RunSpec) -> str:
    """Return a digest of the request, its configuration and target, and the files that the run would get.

    A file counts as changed if it was written, even with the same content. The files include the targets of links, the
    script and the dependency files, wherever they are, and the interpreter with its environment. They do not include
    data that the run configuration declares, or files in linked folders outside the project. Raises StorageError.
    """
    digest = blake2b(repr((request, spec.run_configuration, spec.target, spec.script, spec.arguments)).encode())
    configuration = spec.run_configuration
    for path in (spec.script, configuration.conda_file, configuration.spark_file):
        digest.update(repr(facts_of(os.path.join(project.root, path))).encode())
    for fact in program_facts(spec):
        digest.update(repr(fact).encode("utf-8", "surrogateescape"))
    data = data_in_project(project.root, configuration.data_references)
    with storage_errors("read", project.root):
        for item in project_files(project.root, data, room=room_of(project.state_directory)):
            status = item.status
            if item.kind in (Kind.SNAPSHOT, Kind.COPIED) and status is not None and not item.is_folder:
                # Programs cannot set the ctime.
                facts = (item.path, status.st_mode, status.st_ino, status.st_size, status.st_ctime_ns)
                digest.update(repr(facts).encode("utf-8", "surrogateescape"))
                if item.is_link:
                    digest.update(repr(facts_of(os.path.join(project.root, item.path))).encode())
    return digest.hexdigest()


def requests_directory() -> str:
    """Return the folder of the requests, which may not exist."""
    return os.path.join(agents_directory(), "requests")


def _path(number: int) -> str:
    return os.path.join(requests_directory(), f"{number}.json")


def _numbers() -> list[int]:
    """Return the numbers of all requests, including unreadable requests. Raises StorageError."""
    folder = requests_directory()
    with storage_errors("read", folder):
        try:
            names = os.listdir(folder)
        except FileNotFoundError:
            return []
    return [int(name.removesuffix(".json")) for name in names if name.removesuffix(".json").isdecimal()]


def _content(approval: Approval) -> bytes:
    data: dict[str, Any] = {**approval._asdict(), "request": approval.request._asdict()}
    return (json.dumps(data, indent=2) + "\n").encode()


def _read(number: int) -> Approval | None:
    try:
        return read_as(Approval, load_json(_path(number)))
    except (OSError, ValueError):
        return None
