"""`experiment submit|rerun|status|cancel`."""

from __future__ import annotations

import contextlib
import os
import sys

from tui_workbench.cli import INTERRUPTED
from tui_workbench.cli.output import HISTORY_COLUMNS, PLAIN, add_output_options, emit
from tui_workbench.cli.terminal import visible
from tui_workbench.errors import NoGpu, UsageError
from tui_workbench.model import REMOTE_TYPES, Run, RunRequest, RunState
from tui_workbench.project import Project
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs import Runs
from tui_workbench.runs.rundir import DEFAULT_GRACE

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import Any

    from tui_workbench.cli.parser import Parser
    from tui_workbench.model import Plan

UNKNOWN_END = 1
"""Exit code when a run has ended and nobody knows how."""


def configure_submit(parser: Parser) -> None:
    """Options of `experiment submit`. What follows the script belongs to the script."""
    parser.names_script = True
    parser.usage = (
        "%(prog)s -c NAME [-t TARGET] [--wait | --detach | --dry-run] [--project DIR]\n"
        "                                       SCRIPT [ARGS...]"
    )
    parser.epilog = """\
Prints `RunId: ...`, then what the script writes, to the byte. Ctrl-C stops following and leaves the run alone.

exit codes:
  the script's own, 130 when the run was canceled or no longer followed, 1 when nobody knows how it ended;
  before it has started: 2 wrong use, 3 a configuration problem, 4 the target cannot be reached

examples:
  workbench-tui experiment submit -c local train.py --epochs 3
  workbench-tui experiment submit -c local -t gpu-box --detach train.py
  workbench-tui experiment submit -c local --dry-run -o json train.py"""
    parser.add_argument("-c", "--run-configuration", metavar="NAME", required=True, help="the .runconfig to run with")
    parser.add_argument(
        "-t", "--target", metavar="TARGET", default="", help="instead of the run configuration's Target"
    )
    parser.add_argument("--wait", action="store_true", help="follow the run until it ends (the default)")
    parser.add_argument("--detach", action="store_true", help="print the run's id and return")
    parser.add_argument("--dry-run", action="store_true", help="print what would be done, and do nothing")
    add_cpu_option(parser)
    add_output_options(parser, default="", note="with --detach or --dry-run; default: text")
    parser.add_argument("script", metavar="SCRIPT", nargs="?", default="", help="default: the one in ArgumentVector")
    parser.add_argument(
        "arguments", metavar="ARGS", nargs="...", help="the script's arguments (default: those in ArgumentVector)"
    )


def add_cpu_option(parser: argparse.ArgumentParser) -> None:
    """`--allow-cpu`, for a run that asks for a GPU."""
    parser.add_argument("--allow-cpu", action="store_true", help="run even if it would train on the CPU")


def run_submit(arguments: argparse.Namespace) -> int:
    """Submit, and follow to the end unless told otherwise."""
    if arguments.wait and arguments.detach:
        raise UsageError("--wait and --detach cannot both be", remedy="Leave one out.")
    runs = Runs(Project.find(arguments.project))
    request = RunRequest(arguments.run_configuration, arguments.script, tuple(arguments.arguments), arguments.target)
    return _submit(runs, request, arguments)


def _submit(runs: Runs, request: RunRequest, arguments: argparse.Namespace) -> int:
    request = request._replace(allow_cpu=arguments.allow_cpu)
    wants_record = bool(arguments.output or arguments.query)
    if wants_record and not (arguments.detach or arguments.dry_run or _is_plain(arguments)):
        raise UsageError(
            "-o and --query are for --detach and --dry-run", remedy="Otherwise stdout is the script's; leave them out."
        )
    project = runs.project
    if arguments.dry_run:
        plan, unknown = runs.survey(request)
        if wants_record:
            emit(plan_record(plan), arguments)
        else:
            _print_plan(plan)
        if unknown:
            sys.stderr.write(f"workbench-tui: the target could not be asked: {visible(unknown)}\n")
        return 0
    if project.notice:
        sys.stderr.write(f"workbench-tui: {visible(project.notice)}\n")
    settle_target(project, request)
    with telling_of_allow_cpu():
        run = runs.submit(request, single_threaded=True)
    if arguments.detach and wants_record:
        from tui_workbench.runs.history import history_record

        emit(history_record(run), arguments, HISTORY_COLUMNS)
        return 0
    sys.stdout.write(f"RunId: {run.run_id}\n")
    sys.stdout.flush()
    return 0 if arguments.detach else _follow(runs, run, plain=_is_plain(arguments))


def _is_plain(arguments: argparse.Namespace) -> bool:
    return arguments.output == PLAIN and not arguments.query


@contextlib.contextmanager
def telling_of_allow_cpu() -> Iterator[None]:
    """Name the option that lets a run train on the CPU, where one is refused for it."""
    try:
        yield
    except NoGpu as error:
        error.remedy = f"{error.remedy}   With --allow-cpu it runs all the same."
        raise


def settle_target(project: Project, request: RunRequest) -> None:
    """Ask for what a login on the request's target needs and is not kept anywhere. Raises WorkbenchError."""
    if request.origin:
        from tui_workbench.runs.rerun import basis_of

        target = basis_of(project, request).target
    else:
        target = project.target_of(project.run_configuration(request.run_configuration), request.target)
    if target.type in REMOTE_TYPES:
        from tui_workbench.cli.asking import settle_login

        settle_login(target)


def configure_rerun(parser: Parser) -> None:
    """Options of `experiment rerun`."""
    parser.usage = (
        "%(prog)s -r ID [-c NAME] [-t TARGET] [--env NAME=VALUE] [--detach | --dry-run]\n"
        "                                      [--script SCRIPT] [-- ARGS...]"
    )
    parser.epilog = """\
Runs the snapshot of a run again: its code, arguments, run configuration and target as they were then. Secrets are
taken from the configuration as it is now. What an option names is taken instead; the project's files never are.

examples:
  workbench-tui experiment rerun -r 7
  workbench-tui experiment rerun -r 7 -- --epochs 30
  workbench-tui experiment rerun -r 7 -t gpu-box --env SEED=2"""
    parser.names_script = True
    parser.add_argument("-r", "--run", metavar="ID", required=True, help="the run id, or the run's number")
    parser.add_argument("-c", "--run-configuration", metavar="NAME", default="", help="a .runconfig as it is now")
    parser.add_argument("-t", "--target", metavar="TARGET", default="", help="a .compute as it is now")
    parser.add_argument(
        "--script", dest="other_script", metavar="SCRIPT", default="", help="another one of the snapshot"
    )
    parser.add_argument(
        "--env", metavar="NAME=VALUE", action="append", default=[], help="on top of EnvironmentVariables; no secrets"
    )
    parser.add_argument("--detach", action="store_true", help="print the run's id and return")
    parser.add_argument("--dry-run", action="store_true", help="print what would be done, and do nothing")
    add_cpu_option(parser)
    add_output_options(parser, default="", note="with --detach or --dry-run; default: text")
    parser.add_argument("script", metavar="--", nargs="?", default="", help="what follows are the script's arguments")
    parser.add_argument("arguments", metavar="ARGS", nargs="...", help="instead of those that the run had")


def run_rerun(arguments: argparse.Namespace) -> int:
    """Submit the run again, and follow it unless told otherwise."""
    runs = Runs(Project.find(arguments.project))
    request = runs.request_of(arguments.run)
    request = request._replace(
        run_configuration=arguments.run_configuration,
        target=arguments.target,
        script=arguments.other_script or request.script,
        environment=tuple(_variable(text) for text in arguments.env),
    )
    # Behind `--` the parser has found what would be a script of its own.
    if given := [*([arguments.script] if arguments.script else []), *arguments.arguments]:
        request = request._replace(arguments=tuple(given))
    return _submit(runs, request, arguments)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"--env {text!r} is no NAME=VALUE", remedy="Write it as in `--env SEED=2`.")
    return name, value


def _follow(runs: Runs, run: Run, *, plain: bool) -> int:
    from tui_workbench.cli.stream import OutputStream

    directory = runs.directory(run.run_id)
    notes = None
    if run.target_type != "local" or run.state in (RunState.QUEUED, RunState.PREPARING):
        from tui_workbench.cli.preparation import PreparationNotes

        notes = PreparationNotes(directory)
    try:
        with OutputStream(runs, directory, plain=plain) as stream:
            ended = stream.follow(notes.beside(stream) if notes is not None else None)
    except (KeyboardInterrupt, BrokenPipeError) as error:
        _say_that_it_goes_on(run, is_interrupted=isinstance(error, KeyboardInterrupt))
        return INTERRUPTED
    finally:
        if notes is not None:
            notes.clear()
    _tell_of_gpu(runs, ended)
    if ended.state != RunState.COMPLETED:
        reason = f": {visible(ended.reason)}" if ended.reason else ""
        sys.stderr.write(f"workbench-tui: {ended.run_id} {ended.state}{reason}\n")
    return exit_code_of(ended)


def _tell_of_gpu(runs: Runs, ended: Run) -> None:
    """Whether it used a GPU, in a few lines on stderr; nothing where none was in reach."""
    from tui_workbench.runs.rundir import GPU_VERDICT

    if not os.path.exists(os.path.join(ended.directory, GPU_VERDICT)):
        return
    verdict = runs.gpu_verdict(ended.run_id)
    if verdict is not None:
        from tui_workbench.runs.gpu.verdict import summary

        sys.stderr.write("".join(f"workbench-tui: {visible(line)}\n" for line in summary(verdict)))


def _say_that_it_goes_on(run: Run, *, is_interrupted: bool) -> None:
    # The terminal has printed ^C and stands behind it.
    sys.stderr.write(
        f"{os.linesep if is_interrupted else ''}workbench-tui: {run.run_id} goes on. "
        f"Follow it: workbench-tui logs -f {run.run_id}   "
        f"Cancel it: workbench-tui experiment cancel --run {run.run_id}\n"
    )


def exit_code_of(run: Run) -> int:
    """What a command that waited for the run ends with."""
    if run.state == RunState.CANCELED:
        return INTERRUPTED
    return UNKNOWN_END if run.exit_code is None else run.exit_code


def plan_record(plan: Plan) -> dict[str, Any]:
    """A plan as a record."""
    return {**plan._asdict(), "steps": [step._asdict() for step in plan.steps]}


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
    from tui_workbench.cli.history import add_run_option

    add_run_option(parser)
    add_output_options(parser)


def run_status(arguments: argparse.Namespace) -> int:
    """Print what the run is doing; its metrics and artifacts, which take reading, are in `history info`."""
    from tui_workbench.runs.history import history_record

    emit(history_record(Runs(Project.find(arguments.project)).get(arguments.run)), arguments, HISTORY_COLUMNS)
    return 0


def configure_cancel(parser: argparse.ArgumentParser) -> None:
    """Options of `experiment cancel`."""
    parser.epilog = """\
Asks every process of the run to end, and makes those end that have not after the grace. Returns when none is left.
Of a sweep, only the runs that have not begun are canceled; with --all those that go on as well."""
    parser.add_argument("-r", "--run", metavar="ID", default="", help="the run id, or the run's number")
    parser.add_argument("-g", "--group", metavar="SWEEP", default="", help="a sweep, as in `sweep-1`")
    parser.add_argument("--all", action="store_true", help="with --group: also the runs that go on")
    parser.add_argument("--grace", metavar="SECONDS", type=_seconds, default=DEFAULT_GRACE, help="default: %(default)g")
    # The original asked for the target as well; the run knows it.
    parser.add_argument("-t", "--target", help="not needed: the run knows its target")
    add_output_options(parser)


def run_cancel(arguments: argparse.Namespace) -> int:
    """Cancel and wait until nothing is left; a run that had ended before is an error."""
    from tui_workbench.runs.history import history_record

    runs = Runs(Project.find(arguments.project))
    if bool(arguments.run) == bool(arguments.group):
        raise UsageError("one of --run and --group says what to cancel", remedy="Name a run or a sweep.")
    if arguments.group:
        canceled = runs.stop_group(arguments.group, all_of_it=arguments.all, grace=arguments.grace)
        emit([history_record(run) for run in canceled], arguments, HISTORY_COLUMNS)
        return 0
    before = runs.get(arguments.run)
    if not before.is_active:
        raise UsageError(f"run {before.run_id} has ended already ({before.state})", remedy="Nothing is left to cancel.")
    emit(history_record(runs.cancel(arguments.run, grace=arguments.grace)), arguments, HISTORY_COLUMNS)
    return 0


def _seconds(text: str) -> float:
    from argparse import ArgumentTypeError

    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ArgumentTypeError(f"{text!r} is no number of seconds")
    return value
