"""`computetarget list`."""

from __future__ import annotations

from tui_workbench.cli.output import add_output_options, emit
from tui_workbench.project import Project
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from tui_workbench.model import Problem

COLUMNS = ("name", "type", "address", "interpreter", "problem")


def configure_list(parser: argparse.ArgumentParser) -> None:
    """Options of `computetarget list`."""
    add_output_options(parser)


def run_list(arguments: argparse.Namespace) -> int:
    """Every compute target; one whose file cannot be used says why."""
    rows = [
        {
            "name": target.name,
            "type": target.type or None,
            "address": target.address or None,
            "interpreter": target.python_location if target.type in ("local", "remote") else None,
            "base_docker_image": target.base_docker_image or None,
            "file": target.path,
            "problem": problem_text(target.problem),
        }
        for target in Project.find(arguments.project).targets()
    ]
    emit(rows, arguments, COLUMNS)
    return 0


def problem_text(problem: Problem | None) -> str | None:
    """A problem in one line, with its place in the file."""
    if problem is None:
        return None
    place = f"line {problem.line}: " if problem.line else ""
    return f"{place}{problem.message}. {problem.remedy}".strip()
