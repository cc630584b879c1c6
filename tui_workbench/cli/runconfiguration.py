"""`runconfiguration list`."""

from __future__ import annotations

from tui_workbench.cli.computetarget import problem_text
from tui_workbench.cli.output import add_output_options, emit
from tui_workbench.project import Project
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

COLUMNS = ("name", "target", "framework", "argument_vector", "tracked_run", "problem")


def configure_list(parser: argparse.ArgumentParser) -> None:
    """Options of `runconfiguration list`."""
    add_output_options(parser)


def run_list(arguments: argparse.Namespace) -> int:
    """Every run configuration; one whose file cannot be used says why."""
    rows = [
        {
            "name": configuration.name,
            "target": configuration.target or None,
            "framework": configuration.framework,
            "argument_vector": list(configuration.argument_vector),
            "tracked_run": configuration.tracked_run,
            "file": configuration.path,
            "problem": problem_text(configuration.problem),
        }
        for configuration in Project.find(arguments.project).run_configurations()
    ]
    emit(rows, arguments, COLUMNS)
    return 0
