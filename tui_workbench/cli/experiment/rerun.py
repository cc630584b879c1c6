"""`experiment rerun`: run the snapshot of a run again."""

from __future__ import annotations

import argparse

from tui_workbench.cli.experiment.starting import ALLOW_CPU, DETACH, DRY_RUN, OUTPUT, SLURM
from tui_workbench.cli.experiment.submit import submit_request
from tui_workbench.cli.shared.parser import RUN, option, options
from tui_workbench.core.errors import UsageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.history import History
from tui_workbench.runs.submission.planning import request_of

configure_rerun = options(
    RUN,
    option(
        "-c",
        "--run-configuration",
        metavar="NAME",
        default="",
        help="use this run configuration instead of the recorded one",
    ),
    option(
        "-t",
        "--target",
        metavar="TARGET",
        default="",
        help="run on this target instead of the recorded one",
    ),
    option("--script", dest="other_script", metavar="SCRIPT", default="", help="run another script of the snapshot"),
    option(
        "--env",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="set an environment variable; not for secrets; repeatable",
    ),
    SLURM,
    DETACH,
    DRY_RUN,
    ALLOW_CPU,
    OUTPUT,
    option("script", metavar="--", nargs="?", default="", help="arguments of the script follow"),
    option("arguments", metavar="ARGS", nargs="...", help="the arguments of the script (default: those of the run)"),
    usage="%(prog)s -r ID [-c NAME] [-t TARGET] [--env NAME=VALUE] [--detach | --dry-run]\n"
    "                                      [--script SCRIPT] [-- ARGS...]",
    epilog="""\
Runs a snapshot again with the same code, arguments, run configuration and
target, unless an option replaces them. Secrets come from the current
configuration. The current project files are not used.

examples:
  workbench-tui experiment rerun -r 7
  workbench-tui experiment rerun -r 7 -- --epochs 30
  workbench-tui experiment rerun -r 7 -t gpu-box --env SEED=2""",
    names_script=True,
)


def run_rerun(arguments: argparse.Namespace) -> int:
    project = Project.find(arguments.project)
    request = request_of(project, History(project).directory(arguments.run).run_id)
    request = request._replace(
        run_configuration=arguments.run_configuration,
        target=arguments.target,
        script=arguments.other_script or request.script,
        environment=tuple(_variable(text) for text in arguments.env),
        slurm=",".join(arguments.slurm),
    )
    # The parser expects a script as the first word after `--`.
    if given := [*([arguments.script] if arguments.script else []), *arguments.arguments]:
        request = request._replace(arguments=tuple(given))
    return submit_request(project, request, arguments)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(
            f"--env {text!r} is not NAME=VALUE", remedy="Write a name and a value, for example `--env SEED=2`."
        )
    return name, value
