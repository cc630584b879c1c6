"""`config gpu-ready`: make the edits that a target or run configuration needs to use a GPU."""

from __future__ import annotations

import argparse

from tui_workbench.cli.config import DRY_RUN, RESULT, finding_line, finding_record, project_root
from tui_workbench.cli.shared.output import emit
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.config.changes.gpu_ready import GpuReadyResult, make_gpu_ready
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.plaintext import counted

configure_gpu_ready = options(
    option("name", metavar="NAME", help="a compute target or a run configuration"),
    option("--image", default="", help="the Docker image (default: chosen for the project's packages)"),
    option("--without", metavar="CHANGE", action="append", default=[], help="skip a change, by its ID; repeatable"),
    DRY_RUN,
    RESULT,
)


def run_gpu_ready(arguments: argparse.Namespace) -> int:
    root = project_root(arguments, needed=True) or ""
    result = make_gpu_ready(
        root, arguments.name, image=arguments.image, without=arguments.without, dry_run=arguments.dry_run
    )
    plan = result.plan
    text = result.diff.split("\n")[:-1]
    for hunk in plan.hunks:
        mark = "skipped" if hunk.id in arguments.without else "change"
        text.append(f"{mark} {hunk.title} [{hunk.id}]: {hunk.reason}")
    text += [f"note: {note}" for note in plan.notes]
    text += [f"left: {finding_line(finding)}" for finding in result.left]
    text.append(_summary(result, sum(hunk.id in arguments.without for hunk in plan.hunks)))
    record = {
        "target": plan.target,
        "run_configurations": list(plan.configurations),
        "changes": [
            {"id": hunk.id, "file": hunk.path, "title": hunk.title, "reason": hunk.reason} for hunk in plan.hunks
        ],
        "images": [image._asdict() for image in plan.images],
        "notes": list(plan.notes),
        "left": [finding_record(finding) for finding in result.left],
        "diff": result.diff,
        "applied": result.applied,
    }
    emit(record, arguments, text=text)
    return ConfigurationError.exit_code if result.left else 0


def _summary(result: GpuReadyResult, left_out: int) -> str:
    plan = result.plan
    changes = len(plan.hunks) - left_out
    if changes and not result.applied:
        return f"{counted(changes, 'change')} to make; nothing was changed"
    if result.left:
        return f"{plan.target} is not GPU-ready: {counted(len(result.left), 'problem')} left"
    if left_out:
        return f"{plan.target} is not GPU-ready: {counted(left_out, 'change')} skipped"
    if plan.doubt:
        done = "changed" if changes else "nothing to change"
        return f"{plan.target}: {done}, but {plan.doubt}"
    return f"{plan.target} is GPU-ready" if changes else f"{plan.target} is already GPU-ready"
