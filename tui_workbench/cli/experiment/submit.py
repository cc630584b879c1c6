"""`experiment submit|rerun`, and what other commands that make runs share with them."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
from collections.abc import Iterator

from tui_workbench.cli import INTERRUPTED
from tui_workbench.cli.shared.output import HISTORY_COLUMNS, PLAIN, emit, output, tell
from tui_workbench.cli.shared.parser import RUN, option, options
from tui_workbench.cli.shared.progress_bar import shared
from tui_workbench.cli.shared.prompts import settle_login
from tui_workbench.cli.shared.stream import OutputStream
from tui_workbench.core.errors import NoGpu, UsageError
from tui_workbench.core.masking import mask_plan
from tui_workbench.core.model import Plan, Run, RunRequest, RunState
from tui_workbench.core.plaintext import visible
from tui_workbench.projects.project import Project
from tui_workbench.runs.gpu.verdict import summary, verdict_of
from tui_workbench.runs.history import History
from tui_workbench.runs.snapshots.contents import notes_of
from tui_workbench.runs.store.history_record import history_record
from tui_workbench.runs.store.rundir import GPU_VERDICT, WORKING_COPY, RunDirectory
from tui_workbench.runs.submission.launch import submit
from tui_workbench.runs.submission.planning import basis_of, prepare, request_of, survey
from tui_workbench.runs.transfer.downloads import beside_copy_text, made_elsewhere_text
from tui_workbench.targets.docker.docker_socket import EngineOutOfReach

UNKNOWN_END = 1
"""Exit code when a run has ended and nobody knows how."""

CONFIGURATION = option("-c", "--run-configuration", metavar="NAME", required=True, help="the .runconfig to run with")
DETACH = option("--detach", action="store_true", help="print the run's id and return")
DRY_RUN = option("--dry-run", action="store_true", help="print what would be done, and do nothing")
ALLOW_CPU = option("--allow-cpu", action="store_true", help="run even if it would train on the CPU")
OUTPUT = output(default="", note="with --detach or --dry-run; default: text")
SCRIPT = option("script", metavar="SCRIPT", nargs="?", default="", help="default: the one in ArgumentVector")

configure_submit = options(
    CONFIGURATION,
    option("-t", "--target", metavar="TARGET", default="", help="instead of the run configuration's Target"),
    option("--wait", action="store_true", help="follow the run until it ends (the default)"),
    DETACH,
    DRY_RUN,
    option("--keep-outputs", metavar="PATTERN", action="append", default=[],
           help="copy files that the run made into the project when it completes, as in `data/*.bin`; repeatable"),
    ALLOW_CPU,
    OUTPUT,
    SCRIPT,
    option("arguments", metavar="ARGS", nargs="...", help="the script's arguments (default: those in ArgumentVector)"),
    names_script=True,
    usage="%(prog)s -c NAME [-t TARGET] [--wait | --detach | --dry-run] [--project DIR]\n"
    "                                       SCRIPT [ARGS...]",
    epilog="""\
Prints `RunId: ...`, then what the script writes, to the byte. Ctrl-C stops following and leaves the run alone.

exit codes:
  the script's own, 130 when the run was canceled or no longer followed, 1 when nobody knows how it ended;
  before it has started: 2 wrong use, 3 a configuration problem, 4 the target cannot be reached

examples:
  workbench-tui experiment submit -c local train.py --epochs 3
  workbench-tui experiment submit -c local -t gpu-box --detach train.py
  workbench-tui experiment submit -c local --dry-run -o json train.py""",
)  # fmt: skip
configure_rerun = options(
    RUN,
    option("-c", "--run-configuration", metavar="NAME", default="", help="a .runconfig as it is now"),
    option("-t", "--target", metavar="TARGET", default="", help="a .compute as it is now"),
    option("--script", dest="other_script", metavar="SCRIPT", default="", help="another one of the snapshot"),
    option(
        "--env", metavar="NAME=VALUE", action="append", default=[], help="on top of EnvironmentVariables; no secrets"
    ),
    DETACH,
    DRY_RUN,
    ALLOW_CPU,
    OUTPUT,
    option("script", metavar="--", nargs="?", default="", help="what follows are the script's arguments"),
    option("arguments", metavar="ARGS", nargs="...", help="instead of those that the run had"),
    usage="%(prog)s -r ID [-c NAME] [-t TARGET] [--env NAME=VALUE] [--detach | --dry-run]\n"
    "                                      [--script SCRIPT] [-- ARGS...]",
    epilog="""\
Runs the snapshot of a run again: its code, arguments, run configuration and target as they were then. Secrets are
taken from the configuration as it is now. What an option names is taken instead; the project's files never are.

examples:
  workbench-tui experiment rerun -r 7
  workbench-tui experiment rerun -r 7 -- --epochs 30
  workbench-tui experiment rerun -r 7 -t gpu-box --env SEED=2""",
    names_script=True,
)


def run_submit(arguments: argparse.Namespace) -> int:
    """Submit, and follow to the end unless told otherwise."""
    if arguments.wait and arguments.detach:
        raise UsageError("--wait and --detach cannot both be", remedy="Leave one out.")
    project = Project.find(arguments.project)
    request = RunRequest(arguments.run_configuration, arguments.script, tuple(arguments.arguments), arguments.target)
    request = request._replace(keep_outputs=tuple(arguments.keep_outputs))
    return _submit(project, request, arguments)


def _submit(project: Project, request: RunRequest, arguments: argparse.Namespace) -> int:
    request = request._replace(allow_cpu=arguments.allow_cpu)
    wants_record = bool(arguments.output or arguments.query)
    if wants_record and not (arguments.detach or arguments.dry_run or _is_plain(arguments)):
        raise UsageError(
            "-o and --query are for --detach and --dry-run", remedy="Otherwise stdout is the script's; leave them out."
        )
    if arguments.dry_run:
        plan, unknown = _survey(project, request)
        if wants_record:
            emit({**plan._asdict(), "steps": [step._asdict() for step in plan.steps]}, arguments)
        else:
            sys.stdout.write(plan_text(plan))
        if unknown:
            tell(f"the target could not be asked: {unknown}")
        return 0
    if project.notice:
        tell(project.notice)
    settle_target(project, request)
    with telling_of_allow_cpu():
        run = submit(project, request, single_threaded=True)
    if arguments.detach and wants_record:
        return emit(history_record(run), arguments, HISTORY_COLUMNS)
    if run.tracked:
        tell(*notes_of(RunDirectory(run.directory)))
    sys.stdout.write(f"RunId: {run.run_id}\n")
    sys.stdout.flush()
    return 0 if arguments.detach else _follow(run, plain=_is_plain(arguments))


def _survey(project: Project, request: RunRequest) -> tuple[Plan, str]:
    """The plan, and why the target could not be asked; a plan needs no target."""
    try:
        plan, unknown = survey(prepare(project, request))
    except EngineOutOfReach as error:
        plan, unknown = prepare(project, request).plan, str(error)
    return mask_plan(plan), unknown


def _is_plain(arguments: argparse.Namespace) -> bool:
    return arguments.output == PLAIN and not arguments.query


@contextlib.contextmanager
def telling_of_allow_cpu() -> Iterator[None]:
    """Name the option that lets a run train on the CPU, where one is refused for it."""
    try:
        yield
    except NoGpu as error:
        error.remedy = f"{error.remedy}\nWith --allow-cpu it runs all the same."
        raise


def settle_target(project: Project, request: RunRequest) -> None:
    """Ask for what a login on the request's target needs and is not kept anywhere. Raises WorkbenchError."""
    settle_login(basis_of(project, request).target)


def run_rerun(arguments: argparse.Namespace) -> int:
    """Submit the run again, and follow it unless told otherwise."""
    project = Project.find(arguments.project)
    request = request_of(project, History(project).directory(arguments.run).run_id)
    request = request._replace(
        run_configuration=arguments.run_configuration,
        target=arguments.target,
        script=arguments.other_script or request.script,
        environment=tuple(_variable(text) for text in arguments.env),
    )
    # Behind `--` the parser has found what would be a script of its own.
    if given := [*([arguments.script] if arguments.script else []), *arguments.arguments]:
        request = request._replace(arguments=tuple(given))
    return _submit(project, request, arguments)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"--env {text!r} is no NAME=VALUE", remedy="Write it as in `--env SEED=2`.")
    return name, value


def _follow(run: Run, *, plain: bool) -> int:
    directory = RunDirectory(run.directory)
    try:
        with OutputStream(directory, plain=plain) as stream:
            ended = stream.follow(tells_preparation=True)
    except (KeyboardInterrupt, BrokenPipeError) as error:
        _say_that_it_goes_on(run, is_interrupted=isinstance(error, KeyboardInterrupt))
        return INTERRUPTED
    finally:
        shared().clear()
    if stream.problem is not None:
        tell(str(stream.problem))
    # Nothing where no GPU was in reach.
    has_verdict = os.path.exists(os.path.join(ended.directory, GPU_VERDICT))
    if has_verdict and (verdict := verdict_of(RunDirectory(ended.directory))) is not None:
        tell(*summary(verdict))
    _tell_of_files(ended)
    if ended.state != RunState.COMPLETED or ended.reason:
        tell(f"{ended.run_id} {ended.state}{f': {ended.reason}' if ended.reason else ''}")
    return exit_code_of(ended)


def _tell_of_files(ended: Run) -> None:
    """What the run made outside of its outputs, and what was copied into the project, on stderr."""
    lines = [str(event.get("text")) for event in RunDirectory(ended.directory).events() if event.get("step") == "keep"]
    has_copy = os.path.isdir(os.path.join(ended.directory, WORKING_COPY))
    if has_copy and (text := made_elsewhere_text(ended.directory)):
        tell(f"{text}. Copy to the project: workbench-tui history download -r {ended.run_number} --into-project")
    tell(*lines)
    if ended.tracked and (text := beside_copy_text(ended.directory)):
        tell(text)


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
    if run.exit_code is not None:
        return run.exit_code
    return RunDirectory(run.directory).status().error_code or UNKNOWN_END


def plan_text(plan: Plan) -> str:
    """A plan as lines for a terminal."""
    lines = [f"target       {plan.target} ({plan.target_type})", f"interpreter  {plan.interpreter}", ""]
    for number, step in enumerate(plan.steps, 1):
        lines.append(f"{number}. {step.name}: {step.title}")
        if step.directory:
            lines.append(f"     in   {step.directory}")
        lines += [f"     set  {name}={shlex.quote(value)}" for name, value in step.environment.items()]
        if step.command:
            lines.append(f"     run  {shlex.join(step.command)}")
    return "".join(visible(line) + "\n" for line in lines)
