"""A plan with what only its target can tell: which image is there, what would be built and why, what would be sent."""

from __future__ import annotations

from tui_workbench.errors import TargetUnreachable
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets.protocol import target_for

if TYPE_CHECKING:
    from tui_workbench.model import Plan
    from tui_workbench.runs.launch import Prepared


def survey(prepared: Prepared) -> tuple[Plan, str]:
    """The plan as far as the target can be asked, and why it cannot be, "" when it could.

    Changes nothing. Raises ConfigurationError for what would keep the run from starting.
    """
    from tui_workbench.targets.staged import StagedTarget

    prepared = prepared._replace(plan=_with_gpu(prepared))
    target = target_for(prepared.spec.target)
    if not isinstance(target, StagedTarget):
        return prepared.plan, ""
    from tui_workbench.runs.listing import listing_of_project

    root = prepared.spec.project_root
    try:
        return target.survey(prepared.spec, prepared.plan, lambda: listing_of_project(root)), ""
    except TargetUnreachable as error:
        return prepared.plan, str(error)
    finally:
        target.close()


def _with_gpu(prepared: Prepared) -> Plan:
    """The plan with what was found of the GPU that the run asks for; as it is when it asks for none."""
    plan = prepared.plan
    if not any(step.name == "preflight" for step in plan.steps):
        return plan
    from tui_workbench.runs.gpu.gate import STEP, TITLE, look

    seen = look(prepared.spec)
    if seen.refusal is not None:
        title = f"it would not start: {seen.refusal.message}. {seen.refusal.remedy}"
    else:
        title = f"{TITLE}: {seen.text}"
    steps = (step._replace(title=title) if step.name == STEP else step for step in plan.steps)
    return plan._replace(steps=tuple(steps))
