"""Submit runs for agents within the user's limits, and decide about requests that exceed them.

An approved run is submitted by the process of the user who approves it. It therefore starts even if the server that the
agent used has ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tui_workbench.core.errors import UsageError, WorkbenchError
from tui_workbench.core.masking import mask_words
from tui_workbench.core.model import ComputeTarget, Run, RunRequest, RunSpec
from tui_workbench.core.trace import current_agent
from tui_workbench.projects.project import Project
from tui_workbench.runs.agents import approvals, ledger, timekeeper
from tui_workbench.runs.agents.approvals import Approval
from tui_workbench.runs.agents.limits import excess, load_limits, use_of
from tui_workbench.runs.agents.programs import require_script
from tui_workbench.runs.store import agent_runs
from tui_workbench.runs.submission import launch
from tui_workbench.runs.submission.planning import Prepared, prepare
from tui_workbench.targets.hosts.host import ConnectionLost
from tui_workbench.targets.ssh.login_secrets import ssh_host_of


class LimitExceeded(WorkbenchError):
    """A run exceeds the user's limits for agents. `reasons` lists the exceeded limits."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class PlanChanged(UsageError):
    """The project has changed since the request. `replaced_by` is the request with the new plan."""

    replaced_by: Approval


class Submission(NamedTuple):
    """The result of a submission: either a run, or a request that waits for an approval."""

    run: Run | None = None
    approval: Approval | None = None


def plan_for_agent(project: Project, request: RunRequest) -> tuple[Prepared, list[str]]:
    """Return the plan of a request, and the reasons why it needs an approval. Raises the errors of `submit`."""
    limits = load_limits()
    prepared = prepare(project, _limited(request, limits.minutes_per_run))
    require_script(prepared.spec)
    return prepared, excess(prepared.spec, limits, ledger.read_uses())


def submit_for_agent(project: Project, request: RunRequest) -> Submission:
    """Submit a run of `request.agent`, or store a request for an approval if the run exceeds the limits.

    Raises UsageError if an argument is a secret or the script is not one that agents may run, and the errors of
    `Runs.submit`.
    """
    limits = load_limits()
    request = _limited(request, limits.minutes_per_run)
    with ledger.exclusive():
        uses = ledger.read_uses()

        def check(spec: RunSpec) -> None:
            require_script(spec)
            if reasons := excess(spec, limits, uses):
                raise LimitExceeded(reasons)

        try:
            return Submission(run=_submit(project, request, check))
        except LimitExceeded as error:
            prepared = prepare(project, request)
            return Submission(approval=approvals.add_approval(project, prepared, request, error.reasons))


def approve(number: int) -> Run:
    """Submit the run of a request. Only the plan that the request shows is submitted.

    Raises UsageError if the request does not wait or this process acts for an agent, PlanChanged if the project has
    changed, and the errors of `Runs.submit`; the request then still waits, except after PlanChanged.
    """
    if name := current_agent():
        raise UsageError(
            f"the agent {name} cannot approve a run",
            remedy="The user must approve it, in a shell without the variable WORKBENCH_AGENT.",
        )
    with ledger.exclusive():
        approval = approvals.find_waiting(number)
        project = Project.find(approval.project)

        def mark_submitted(spec: RunSpec) -> None:
            approvals.write_approval(approval._replace(state=approvals.SUBMITTED, run_id=spec.run_id))

        try:
            return _submit(project, approval.request, partial(_require_same, project, approval), mark_submitted)
        except PlanChanged:
            raise  # `_require_same` has closed the request
        except BaseException:
            # The start of the run may have failed after the request was marked as submitted.
            approvals.write_approval(approval)
            raise


def target_of_waiting(number: int) -> ComputeTarget:
    """Return the target of a waiting request, so that the user can log in to the target before `approve`.

    Raises UsageError if the request does not wait, PlanChanged if the project has changed, and the errors of `prepare`.
    """
    with ledger.exclusive():
        approval = approvals.find_waiting(number)
        project = Project.find(approval.project)
        spec = prepare(project, approval.request).spec
        _require_same(project, approval, spec)
    return spec.target


def deny(number: int, answer: str = "") -> None:
    """Deny a request; `answer` is a reason for the agent. Raises UsageError or StorageError."""
    with ledger.exclusive():
        approval = approvals.find_waiting(number)
        approvals.write_approval(approval._replace(state=approvals.DENIED, answer=answer))


def _limited(request: RunRequest, minutes: int) -> RunRequest:
    if tuple(mask_words(request.arguments)) != request.arguments:
        raise UsageError(
            "an argument contains a secret, which agents cannot pass to a run",
            remedy="Set the secret in EnvironmentVariables of the run configuration, and read it in the script.",
        )
    return request._replace(max_minutes=minutes)


def _require_same(project: Project, approval: Approval, spec: RunSpec) -> None:
    """If the project has changed, replace the request and raise PlanChanged."""
    if approvals.fingerprint_of(project, approval.request, spec) == approval.fingerprint:
        return
    prepared = prepare(project, approval.request)
    new = approvals.add_approval(project, prepared, approval.request, approval.reasons, replaced=approval.number)
    approvals.write_approval(approval._replace(state=approvals.CHANGED, replaced_by=new.number))
    error = PlanChanged(
        f"the project has changed since request {approval.number}",
        remedy=f"Request {new.number} has the new plan. Review it, and approve or deny it.",
    )
    error.replaced_by = new
    raise error


def _require_login(target: ComputeTarget) -> None:
    """Raise TargetUnreachable if the login to a target needs input from the user, which a run cannot request."""
    if target.uses_ssh:
        with contextlib.suppress(ConnectionLost):  # the run waits until the machine is reachable
            ssh_host_of(target).run(["true"])


def _submit(
    project: Project,
    request: RunRequest,
    check: Callable[[RunSpec], object],
    before_start: Callable[[RunSpec], object] = lambda _: None,
) -> Run:
    """Submit a run that `check` accepts.

    Before the run starts, it is added to the list of runs of agents, and `before_start` is called. Nothing is written
    after the start: if such a write failed, the list would lack a run that has started.
    """
    others = ledger.read_uses()
    added: list[ledger.Use] = []

    def admit(spec: RunSpec) -> None:
        check(spec)
        # The second call of `create_run`, after the snapshot was taken, has the final ID and directory of the run.
        if added:
            agent_runs.add(spec, request.agent)
            ledger.write_uses([*others, added[0]._replace(run=spec.run_directory)])
            timekeeper.ensure()
            before_start(spec)
        else:
            _require_login(spec.target)
            added.append(use_of(spec, request.agent))
            ledger.write_uses([*others, *added])

    try:
        return launch.submit(project, request, check=admit)
    except BaseException:
        if added:
            ledger.write_uses(others)
        raise
