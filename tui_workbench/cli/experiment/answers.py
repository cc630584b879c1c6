"""Print the plan or the record of a run, for `experiment submit` and `rerun`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from tui_workbench.cli.shared.output import HISTORY_COLUMNS, emit, notify
from tui_workbench.core.masking import mask_plan
from tui_workbench.core.model import Run, RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.index.history_record import history_record
from tui_workbench.runs.submission.plan_details import plan_details, plan_text
from tui_workbench.runs.submission.planning import prepare
from tui_workbench.targets.docker.docker_socket import EngineOutOfReach


def answer(
    project: Project,
    request: RunRequest,
    arguments: argparse.Namespace,
    submit: Callable[[Project, RunRequest], Run],
) -> int:
    """Print the plan with `--dry-run`, else submit the run with `submit` and print its record. Return exit code 0."""
    if arguments.dry_run:
        return print_plan(project, request, arguments)
    return emit(history_record(submit(project, request)), arguments, HISTORY_COLUMNS)


def print_plan(project: Project, request: RunRequest, arguments: argparse.Namespace) -> int:
    try:
        plan, unreachable = plan_details(prepare(project, request))
    except EngineOutOfReach as error:
        plan, unreachable = prepare(project, request).plan, str(error)
    plan = mask_plan(plan)
    if arguments.output or arguments.query:
        emit({**plan._asdict(), "steps": [step._asdict() for step in plan.steps]}, arguments)
    else:
        sys.stdout.write(plan_text(plan))
    if unreachable:
        notify("the plan is incomplete, because the target cannot be used now", unreachable)
    return 0
