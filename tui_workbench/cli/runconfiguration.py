"""`runconfiguration list|create|delete`: list, create and delete run configurations."""

from __future__ import annotations

import argparse
import os

from tui_workbench.cli.shared.output import emit, output, problem_text
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.config.changes.lifecycle import create_run_configuration, delete, trash_directory
from tui_workbench.projects.project import RUN_CONFIGURATION_SUFFIX, Project

COLUMNS = ("name", "target", "framework", "argument_vector", "tracked_run", "problem")

configure_list = options(output(example="[?target=='local']"))
configure_create = options(
    option("-n", "--name", metavar="NAME", required=True, help="the name of the new run configuration"),
    option("-t", "--target", metavar="TARGET", required=True, help="the compute target to run on"),
    output(),
)
configure_delete = options(
    option("-n", "--name", metavar="NAME", required=True, help="the run configuration to delete"), output()
)


def run_list(arguments: argparse.Namespace) -> int:
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
    return emit(rows, arguments, COLUMNS)


def run_create(arguments: argparse.Namespace) -> int:
    project = Project.find(arguments.project)
    project.target(arguments.target)
    create_run_configuration(project.root, arguments.name, arguments.target).apply()
    return emit({"name": arguments.name, "file": _path(project, arguments.name)}, arguments)


def run_delete(arguments: argparse.Namespace) -> int:
    project = Project.find(arguments.project)
    delete(_path(project, arguments.name)).apply()
    return emit({"name": arguments.name, "trash": trash_directory(project.root)}, arguments)


def _path(project: Project, name: str) -> str:
    return os.path.join(project.config_directory, name + RUN_CONFIGURATION_SUFFIX)
