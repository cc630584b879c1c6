"""`experiment submit|status|cancel`."""

from __future__ import annotations

import sys

from tui_workbench.cli import INTERRUPTED
from tui_workbench.cli.output import add_output_options, add_project_option
from tui_workbench.cli.terminal import visible
from tui_workbench.errors import UsageError
from tui_workbench.model import Run, RunRequest, RunState
from tui_workbench.project import Project
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs import Runs

if TYPE_CHECKING:
    import argparse

    from tui_workbench.model import Plan

UNKNOWN_END = 1
"""Exit code when a run has ended and nobody knows how."""


def configure_submit(parser: argparse.ArgumentParser) -> None:
    """Options of `experiment submit`. What follows the script belongs to the script."""
    parser.usage = "%(prog)s -c NAME [-t TARGET] [--wait | --detach] [--dry-run] [--project DIR] SCRIPT [ARGS...]"
    parser.add_argument("-c", "--run-configuration", metavar="NAME", required=True, help="the .runconfig to run with")
    parser.add_argument(
        "-t", "--target", metavar="TARGET", default="", help="instead of the run configuration's Target"
    )
    parser.add_argument("--wait", action="store_true", help="follow the run until it ends (the default)")
    parser.add_argument("--detach", action="store_true", help="print the run id and return")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and do nothing")
    add_project_option(parser)
    parser.add_argument("script", metavar="SCRIPT", nargs="?", default="", help="default: the one in ArgumentVector")
    parser.add_argument("arguments", metavar="ARGS", nargs="...", help="arguments of the script")


def run_submit(arguments: argparse.Namespace) -> int:
    """Submit, and follow to the end unless told otherwise."""
    if arguments.wait and arguments.detach:
        raise UsageError("--wait and --detach cannot both be", remedy="Leave one out.")
    project = Project.find(arguments.project)
    runs = Runs(project)
    request = RunRequest(arguments.run_configuration, arguments.script, tuple(arguments.arguments), arguments.target)
    if arguments.dry_run:
        plan, unknown = runs.survey(request)
        _print_plan(plan)
        if unknown:
            sys.stderr.write(f"workbench-tui: the target could not be asked: {visible(unknown)}\n")
        return 0
    if project.notice:
        sys.stderr.write(f"workbench-tui: {project.notice}\n")
    run = runs.submit(request, single_threaded=True)
    sys.stdout.write(f"RunId: {run.run_id}\n")
    sys.stdout.flush()
    return 0 if arguments.detach else _follow(runs, run)


def _follow(runs: Runs, run: Run) -> int:
    from tui_workbench.cli.stream import OutputStream

    directory = runs.directory(run.run_id)
    stream = OutputStream(directory, runs.resume)
    try:
        if run.target_type == "local":
            ended = stream.follow()
        else:
            from tui_workbench.cli.preparation import PreparationNotes

            ended = stream.follow(PreparationNotes(directory).tell)
    except KeyboardInterrupt:
        stream.close()
        sys.stderr.write(
            f"\nworkbench-tui: {run.run_id} goes on. Follow it: workbench-tui logs -f {run.run_id}   "
            f"Cancel it: workbench-tui experiment cancel --run {run.run_id}\n"
        )
        return INTERRUPTED
    stream.close()
    if ended.state != RunState.COMPLETED:
        sys.stderr.write(f"workbench-tui: {ended.run_id} {ended.state}{f': {ended.reason}' if ended.reason else ''}\n")
    return exit_code_of(ended)


def exit_code_of(run: Run) -> int:
    """What a command that waited for the run ends with."""
    if run.state == RunState.CANCELED:
        return INTERRUPTED
    return UNKNOWN_END if run.exit_code is None else run.exit_code


def _print_plan(plan: Plan) -> None:
    import shlex

    lines = [f"target       {plan.target} ({plan.target_type})", f"interpreter  {plan.interpreter}", ""]
    for number, step in enumerate(plan.steps, 1):
        lines.append(f"{number}. {step.name}: {step.title}")
        if step.directory:
            lines.append(f"     in   {step.directory}")
        lines += [f"     set  {name}={shlex.quote(value)}" for name, value in step.environment.items()]
        if step.command:
            lines.append(f"     run  {shlex.join(step.command)}")
    sys.stdout.write("".join(visible(line) + "\n" for line in lines))


def configure_status(parser: argparse.ArgumentParser) -> None:
    """Options of `experiment status`."""
    from tui_workbench.cli.history import configure_info

    configure_info(parser)


def run_status(arguments: argparse.Namespace) -> int:
    """Print what the run is doing."""
    from tui_workbench.cli.history import run_info

    return run_info(arguments)


def configure_cancel(parser: argparse.ArgumentParser) -> None:
    """Options of `experiment cancel`."""
    from tui_workbench.cli.history import add_run_option

    add_run_option(parser)
    add_output_options(parser)
    # The original asked for the target as well; the run knows it.
    parser.add_argument("-t", "--target", help="not needed: the run knows its target")


def run_cancel(arguments: argparse.Namespace) -> int:
    """Cancel and wait until nothing is left; a run that had ended before is an error."""
    from tui_workbench.cli.history import COLUMNS
    from tui_workbench.cli.output import emit
    from tui_workbench.runs.history import history_record

    runs = Runs(Project.find(arguments.project))
    before = runs.get(arguments.run)
    if not before.is_active:
        raise UsageError(f"run {before.run_id} has ended already ({before.state})", remedy="Nothing is left to cancel.")
    emit(history_record(runs.cancel(arguments.run)), arguments, COLUMNS)
    return 0
