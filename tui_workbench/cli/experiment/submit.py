"""`experiment submit`, and what other commands that make runs share with it."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator

from tui_workbench.cli import INTERRUPTED
from tui_workbench.cli.shared.output import PLAIN, output, tell
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.cli.shared.progress_bar import shared
from tui_workbench.cli.shared.stream import OutputStream
from tui_workbench.core.errors import NoGpu, UsageError
from tui_workbench.core.model import Run, RunRequest, RunState
from tui_workbench.projects.project import Project
from tui_workbench.runs.gpu.verdict import stored_verdict, summary
from tui_workbench.runs.store.rundir import WORKING_COPY, RunDirectory
from tui_workbench.runs.submission.launch import submit
from tui_workbench.runs.submission.planning import basis_of

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


def run_submit(arguments: argparse.Namespace) -> int:
    """Submit, and follow to the end unless told otherwise."""
    if arguments.wait and arguments.detach:
        raise UsageError("--wait and --detach cannot both be", remedy="Leave one out.")
    project = Project.find(arguments.project)
    request = RunRequest(arguments.run_configuration, arguments.script, tuple(arguments.arguments), arguments.target)
    request = request._replace(keep_outputs=tuple(arguments.keep_outputs))
    return submit_request(project, request, arguments)


def submit_request(project: Project, request: RunRequest, arguments: argparse.Namespace) -> int:
    """Submit, and print what the options ask for: the plan, the run, or its output as it comes."""
    request = request._replace(allow_cpu=arguments.allow_cpu)
    wants_record = bool(arguments.output or arguments.query)
    if wants_record and not (arguments.detach or arguments.dry_run or _is_plain(arguments)):
        raise UsageError(
            "-o and --query are for --detach and --dry-run", remedy="Otherwise stdout is the script's; leave them out."
        )
    if arguments.dry_run:
        from tui_workbench.cli.experiment.answers import print_plan

        return print_plan(project, request, arguments)
    if project.notice:
        tell(project.notice)
    settle_target(project, request)
    with telling_of_allow_cpu():
        run = submit(project, request, single_threaded=True)
    if arguments.detach and wants_record:
        from tui_workbench.cli.experiment.answers import print_record

        return print_record(run, arguments)
    if run.tracked:
        tell(*RunDirectory(run.directory).notes())
    sys.stdout.write(f"RunId: {run.run_id}\n")
    sys.stdout.flush()
    return 0 if arguments.detach else _follow(run, plain=_is_plain(arguments))


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
    target = basis_of(project, request).target
    if target.kind.is_remote:
        from tui_workbench.cli.shared.prompts import settle_login

        settle_login(target)


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
    if (verdict := stored_verdict(ended.directory)) is not None:
        tell(*summary(verdict))
    _tell_of_files(ended)
    if ended.state != RunState.COMPLETED or ended.reason:
        tell(f"{ended.run_id} {ended.state}{f': {ended.reason}' if ended.reason else ''}")
    return exit_code_of(ended)


def _tell_of_files(ended: Run) -> None:
    """What the run made outside of its outputs, and what was copied into the project, on stderr."""
    lines = [str(event.get("text")) for event in RunDirectory(ended.directory).events() if event.get("step") == "keep"]
    has_copy = os.path.isdir(os.path.join(ended.directory, WORKING_COPY))
    if not (has_copy or ended.tracked):
        tell(*lines)
        return
    from tui_workbench.runs.transfer.downloads import beside_copy_text, made_elsewhere_text

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
