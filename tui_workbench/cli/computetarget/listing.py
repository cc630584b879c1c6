"""`computetarget list`: list the compute targets of a project."""

from __future__ import annotations

import argparse

from tui_workbench.cli.shared.output import emit, output, problem_text
from tui_workbench.cli.shared.parser import options
from tui_workbench.core.masking import mask_text
from tui_workbench.projects.project import Project
from tui_workbench.targets.hosts.contacts import is_contacted

COLUMNS = ("name", "type", "address", "interpreter", "problem")

configure_list = options(output(example="[?type=='local']"))


def run_list(arguments: argparse.Namespace) -> int:
    rows = [
        {
            "name": target.name,
            "type": target.type or None,
            "address": target.address or None,
            "interpreter": target.python_location if target.kind.uses_interpreter else None,
            "base_docker_image": mask_text(target.base_docker_image) or None,
            "file": target.path,
            "contacted": is_contacted(target),
            "problem": problem_text(target.problem),
        }
        for target in Project.find(arguments.project).targets()
    ]
    return emit(rows, arguments, COLUMNS)
