"""`experiment submit`: run a script on a target, and follow its output. `rerun` submits its request here too."""

from __future__ import annotations

import argparse
import os
import sys

from tui_workbench.cli import INTERRUPTED
from tui_workbench.cli.experiment.starting import (
    ALLOW_CPU,
    CONFIGURATION,
    DETACH,
    DRY_RUN,
    MAX_PARALLEL,
    OUTPUT,
    SCRIPT,
    SEEDS,
    SLURM,
    ensure_target_login,
    seeds_of,
    suggesting_allow_cpu,
)
from tui_workbench.cli.shared.output import PLAIN, notify
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.cli.shared.progress_bar import shared
from tui_workbench.cli.shared.stream import OutputStream
from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import Run, RunRequest, RunState
from tui_workbench.projects.project import Project
from tui_workbench.runs.store.rundir import GPU_VERDICT, WORKING_COPY, RunDirectory
from tui_workbench.runs.submission.launch import submit

UNKNOWN_END = 1
"""Exit code for a run that has ended with an unknown result."""

configure_submit = options(
    CONFIGURATION,
    option("-t", "--target", metavar="TARGET", default="", help="override Target of the run configuration"),
    option("--wait", action="store_true", help="follow the run until it ends (the default)"),
    DETACH,
    DRY_RUN,
    option("--keep-outputs", metavar="PATTERN", action="append", default=[],
           help="when the run completes, copy matching files, such as `data/*.bin`, into the project; repeatable"),
    option("--after", metavar="RUN[:CONDITION]", default="",
           help="start when another run completes (ok, the default), ends (any) or fails (failed)"),
    *SEEDS,
    MAX_PARALLEL,
    SLURM,
    ALLOW_CPU,
    OUTPUT,
    SCRIPT,
    option("arguments", metavar="ARGS", nargs="...", help="the arguments of the script (default: from ArgumentVector)"),
    names_script=True,
    usage="%(prog)s -c NAME [-t TARGET] [--repeat N] [--wait | --detach | --dry-run]\n"
    "                                       SCRIPT [ARGS...]",
    epilog="""\
Prints `RunId: ...`, then the exact output of the script. Ctrl-C stops
following; the run continues.

With --repeat N, the script runs N times with the seeds 1 to N. A seed replaces
`{seed}` or the value of `--seed` in the arguments; without these, `--seed SEED` is
appended. Only the start and end of each run are printed; with --detach, only the
name of the sweep. The exit code is 0 if every run completed, otherwise 1.
`history families` prints the means of the metrics.

exit codes:
  the exit code of the script; 130 if the run was canceled or Ctrl-C was pressed;
  1 if the result of the run is unknown; before the start of the run, 2 for wrong
  usage, 3 for a configuration problem, 4 if the target is unreachable

examples:
  workbench-tui experiment submit -c local train.py --epochs 3
  workbench-tui experiment submit -c local -t gpu-box --detach train.py
  workbench-tui experiment submit -c local train.ipynb
  workbench-tui experiment submit -c local --repeat 5 train.py --lr 0.1
  workbench-tui experiment submit -c local --dry-run -o json train.py""",
)  # fmt: skip


def run_submit(arguments: argparse.Namespace) -> int:
    if arguments.wait and arguments.detach:
        raise UsageError("--wait cannot be used with --detach", remedy="Omit --wait or --detach.")
    project = Project.find(arguments.project)
    request = RunRequest(arguments.run_configuration, arguments.script, tuple(arguments.arguments), arguments.target)
    request = request._replace(
        keep_outputs=tuple(arguments.keep_outputs), slurm=",".join(arguments.slurm), after=arguments.after
    )
    seeds = seeds_of(arguments)
    if seeds is not None:
        from tui_workbench.cli.experiment.members import run_members

        if arguments.keep_outputs or arguments.after:
            raise UsageError(
                "--repeat cannot be used with --keep-outputs or --after",
                remedy="Omit --repeat, or omit --keep-outputs and --after.",
            )
        return run_members(project, request._replace(allow_cpu=arguments.allow_cpu), [{}], seeds, arguments)
    if arguments.max_parallel != 1:
        raise UsageError("--max-parallel needs --repeat", remedy="Add `--repeat N`, or omit --max-parallel.")
    return submit_request(project, request, arguments)


def submit_request(project: Project, request: RunRequest, arguments: argparse.Namespace) -> int:
    """Submit a run and follow it. With `--detach`, only print its ID or record; with `--dry-run`, only the plan."""
    request = request._replace(allow_cpu=arguments.allow_cpu)
    wants_record = bool(arguments.output or arguments.query)
    if wants_record and not (arguments.detach or arguments.dry_run or _is_plain(arguments)):
        raise UsageError(
            "-o and --query need --detach or --dry-run",
            remedy="Add `--detach` or `--dry-run`, or omit -o and --query: stdout is the output of the script.",
        )
    if arguments.dry_run or (arguments.detach and wants_record):
        from tui_workbench.cli.experiment.answers import answer

        return answer(project, request, arguments, _submit)
    run = _submit(project, request)
    if run.tracked:
        notify(*RunDirectory(run.directory).notes())
    sys.stdout.write(f"RunId: {run.run_id}\n")
    sys.stdout.flush()
    return 0 if arguments.detach else _follow(run, plain=_is_plain(arguments))


def _submit(project: Project, request: RunRequest) -> Run:
    if project.notice:
        notify(project.notice)
    ensure_target_login(project, request)
    with suggesting_allow_cpu():
        return submit(project, request, single_threaded=True)


def _is_plain(arguments: argparse.Namespace) -> bool:
    return arguments.output == PLAIN and not arguments.query


def _follow(run: Run, *, plain: bool) -> int:
    directory = RunDirectory(run.directory)
    try:
        with OutputStream(directory, plain=plain) as stream:
            ended = stream.follow(shows_preparation=True)
    except (KeyboardInterrupt, BrokenPipeError) as error:  # the controller is another process, so the run continues
        if isinstance(error, KeyboardInterrupt):
            sys.stderr.write("\n")  # the terminal has printed ^C
        notify(
            f"{run.run_id} continues. Follow it: workbench-tui logs -f {run.run_id}   "
            f"Cancel it: workbench-tui experiment cancel --run {run.run_id}"
        )
        return INTERRUPTED
    finally:
        shared().clear()
    if stream.problem is not None:
        notify(str(stream.problem))
    if os.path.exists(os.path.join(ended.directory, GPU_VERDICT)):
        _report_verdict(ended)
    _report_files(ended)
    if ended.state != RunState.COMPLETED or ended.reason:
        notify(f"{ended.run_id} {ended.state}{f': {ended.reason}' if ended.reason else ''}")
    return exit_code_of(ended)


def _report_verdict(ended: Run) -> None:
    from tui_workbench.runs.gpu import verdict

    if (stored := verdict.stored_verdict(ended.directory)) is not None:
        notify(*verdict.summary(stored))


def _report_files(ended: Run) -> None:
    """Report files that the run made outside outputs/, and files that were copied into the project."""
    lines = [str(event.get("text")) for event in RunDirectory(ended.directory).events() if event.get("step") == "keep"]
    has_copy = os.path.isdir(os.path.join(ended.directory, WORKING_COPY))
    if not (has_copy or ended.tracked):
        notify(*lines)
        return
    from tui_workbench.runs.transfer import downloads

    if has_copy and (text := downloads.outside_outputs_text(ended.directory)):
        notify(f"{text}. Copy to the project: workbench-tui history download -r {ended.run_number} --into-project")
    notify(*lines)
    if ended.tracked and (text := downloads.outside_copy_text(ended.directory)):
        notify(text)


def exit_code_of(run: Run) -> int:
    """Return the exit code of a command that waited for the run."""
    if run.state == RunState.CANCELED:
        return INTERRUPTED
    if run.exit_code is not None:
        return run.exit_code
    return RunDirectory(run.directory).status().error_code or UNKNOWN_END
