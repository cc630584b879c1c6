"""`agent list|show|approve|deny`: decide about runs of coding agents that exceed your limits."""

from __future__ import annotations

import argparse
from typing import Any

from tui_workbench.cli.shared.output import HISTORY_COLUMNS, TEXT, emit, notify, output
from tui_workbench.cli.shared.parser import number_of, option, options
from tui_workbench.cli.shared.prompts import ensure_login
from tui_workbench.core.errors import NoGpu
from tui_workbench.core.moments import utc
from tui_workbench.core.trace import current_agent
from tui_workbench.runs.agents import submitting
from tui_workbench.runs.agents.approvals import WAITING, Approval, find_approval, read_approvals
from tui_workbench.runs.index.history_record import history_record

COLUMNS = ("number", "state", "agent", "run", "reasons", "project")

_NUMBER = option("number", metavar="N", type=number_of("a request", "the number"), help="the number of the request")

configure_list = options(
    option("--all", action="store_true", help="include requests that no longer wait for an approval"),
    output("table", example="[].number", has_project=False),
)
configure_show = options(_NUMBER, output(TEXT, has_project=False))
configure_approve = options(
    _NUMBER,
    output(TEXT, has_project=False),
    epilog="""\
Starts the run of the request, with your environment. An approval covers only
the plan that `agent show` prints. If a file of the project, the configuration or
the target has changed since the request, no run is started, and a new request
has the new plan.""",
)
configure_deny = options(
    _NUMBER,
    option("--reason", metavar="TEXT", default="", help="the reason, which the agent receives"),
    output(TEXT, has_project=False),
)


def run_list(arguments: argparse.Namespace) -> int:
    approvals = [approval for approval in read_approvals() if arguments.all or approval.state == WAITING]
    emit([_record(approval) for approval in approvals], arguments, COLUMNS)
    if not approvals and arguments.output == "table":
        notify("no request waits for an approval")
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    approval = find_approval(arguments.number)
    return emit({**_record(approval), "plan": approval.plan}, arguments, text=approval.text.split("\n")[:-1])


def run_approve(arguments: argparse.Namespace) -> int:
    """Submit the run of a request. Raises UsageError if the project has changed since the request."""
    if not current_agent():  # `approve` raises the error
        ensure_login(submitting.target_of_waiting(arguments.number))
    try:
        run = submitting.approve(arguments.number)
    except NoGpu as error:
        error.remedy = f"{error.remedy}\nTo run on the CPU, the agent must request the run again with `allow_cpu`."
        raise
    columns = HISTORY_COLUMNS if arguments.output == "table" else ()
    return emit(history_record(run), arguments, columns, text=[f"RunId: {run.run_id}"])


def run_deny(arguments: argparse.Namespace) -> int:
    submitting.deny(arguments.number, arguments.reason)
    return emit(_record(find_approval(arguments.number)), arguments, text=[f"denied request {arguments.number}"])


def _record(approval: Approval) -> dict[str, Any]:
    return {
        "number": approval.number,
        "state": approval.state,
        "agent": approval.agent,
        "created_utc": utc(approval.created),
        "project": approval.project,
        "run": approval.summary,
        "reasons": list(approval.reasons),
        "run_id": approval.run_id or None,
        "answer": approval.answer or None,
        "replaced_by": approval.replaced_by or None,
    }
