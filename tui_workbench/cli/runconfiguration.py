"""`runconfiguration list|create|delete`."""

from __future__ import annotations

import os

from tui_workbench.cli.computetarget import problem_text
from tui_workbench.cli.output import add_output_options, emit
from tui_workbench.project import RUN_CONFIGURATION_SUFFIX, Project
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


def configure_create(parser: argparse.ArgumentParser) -> None:
    """Options of `runconfiguration create`."""
    parser.add_argument("-n", "--name", metavar="NAME", required=True, help="what to call it")
    parser.add_argument("-t", "--target", metavar="TARGET", required=True, help="the compute target to run on")
    add_output_options(parser)


def run_create(arguments: argparse.Namespace) -> int:
    """Write the .runconfig file; one that exists is never written over."""
    from tui_workbench.config.lifecycle import create_run_configuration

    project = Project.find(arguments.project)
    project.target(arguments.target)
    create_run_configuration(project.root, arguments.name, arguments.target).apply()
    emit({"name": arguments.name, "file": _path(project, arguments.name)}, arguments)
    return 0


def configure_delete(parser: argparse.ArgumentParser) -> None:
    """Options of `runconfiguration delete`."""
    parser.add_argument("-n", "--name", metavar="NAME", required=True, help="the run configuration")
    add_output_options(parser)


def run_delete(arguments: argparse.Namespace) -> int:
    """Put the .runconfig file into the trash of the project."""
    from tui_workbench.config.lifecycle import delete, trash_of

    project = Project.find(arguments.project)
    delete(_path(project, arguments.name)).apply()
    emit({"name": arguments.name, "trash": trash_of(project.root)}, arguments)
    return 0


def _path(project: Project, name: str) -> str:
    return os.path.join(project.config_directory, name + RUN_CONFIGURATION_SUFFIX)
