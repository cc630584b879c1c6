"""Add details from the target to the plan of a request, for `--dry-run` and the screens."""

from __future__ import annotations

import contextlib
import shlex

from tui_workbench.config.schema.data_references import data_in_project
from tui_workbench.core.errors import TargetUnreachable
from tui_workbench.core.model import Plan
from tui_workbench.core.plaintext import visible
from tui_workbench.runs.gpu.gate import STEP, TITLE, check_gpu
from tui_workbench.runs.snapshots.contents import plan_files
from tui_workbench.runs.snapshots.working_copy import files_of_project
from tui_workbench.runs.submission.planning import Prepared
from tui_workbench.targets.hosts.contacts import NotContacted, require_contacted
from tui_workbench.targets.registry import target_to_look_at


def plan_details(prepared: Prepared) -> tuple[Plan, str]:
    """Return the plan with details from the target; see `Runs.plan_details`."""
    spec, plan, commit = prepared
    try:
        require_contacted(spec.target)
    except NotContacted as error:
        return (plan_files(spec, plan, is_again=bool(commit)) if spec.tracked else plan), str(error)
    if any(step.name == STEP for step in plan.steps):
        check = check_gpu(spec, is_plan=True)
        title = f"{TITLE}: {check.text}"
        if check.refusal is not None:
            title = f"{check.refusal.message}. The run would not start. {' '.join(check.refusal.remedy.split())}"
        plan = plan.with_step(STEP, title=title)
    if spec.tracked:
        plan = plan_files(spec, plan, is_again=bool(commit))
    data = data_in_project(spec.project_root, spec.run_configuration.data_references)
    with contextlib.closing(target_to_look_at(spec.target)) as target:
        try:
            return target.plan_details(spec, plan, lambda: files_of_project(spec.project_root, data)), ""
        except TargetUnreachable as error:
            return plan, str(error)


def plan_text(plan: Plan) -> str:
    """Format a plan as lines of text."""
    lines = [f"target       {plan.target} ({plan.target_type})", f"interpreter  {plan.interpreter}", ""]
    for number, step in enumerate(plan.steps, 1):
        lines.append(f"{number}. {step.name}: {step.title}")
        if step.directory:
            lines.append(f"     in   {step.directory}")
        lines += [f"     set  {name}={shlex.quote(value)}" for name, value in step.environment.items()]
        if step.command:
            lines.append(f"     run  {shlex.join(step.command)}")
    return "".join(visible(line) + "\n" for line in lines)
