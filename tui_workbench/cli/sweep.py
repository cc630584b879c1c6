"""`experiment sweep`: one script over many values of its arguments."""

from __future__ import annotations

import sys
import time

from tui_workbench.cli import INTERRUPTED
from tui_workbench.cli.experiment import add_cpu_option, settle_target, telling_of_allow_cpu
from tui_workbench.cli.output import HISTORY_COLUMNS, add_output_options, emit
from tui_workbench.cli.terminal import visible
from tui_workbench.errors import UsageError
from tui_workbench.model import RunRequest, RunState
from tui_workbench.project import Project
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs import Runs
from tui_workbench.runs.rundir import RunDirectory

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from tui_workbench.cli.parser import Parser
    from tui_workbench.model import Run
    from tui_workbench.runs.sweep import Member

LOOK_SECONDS = 0.25
RESUME_SECONDS = 2.0
"""Between looks at the runs of a sweep, and between looks after those that nobody drives any more."""


def configure_sweep(parser: Parser) -> None:
    """Options of `experiment sweep`. What follows the script belongs to the script."""
    parser.names_script = True
    parser.usage = (
        "%(prog)s -c NAME (--param NAME=VALUE,... | --list FILE) [--random N [--seed N]]\n"
        "                                      [--max-parallel N] [--detach | --dry-run] SCRIPT [ARGS...]"
    )
    parser.epilog = """\
One run for each combination of the values, all of the same snapshot. A value goes where `{name}` stands in the
arguments, else `--name value` is appended. Runs that wait for their turn are `queued`; they begin also when this
command has ended. Ctrl-C stops following; `experiment cancel --group SWEEP` cancels what has not begun.

with --random N, values can also be drawn:  lr=loguniform(1e-5,1e-1)  dropout=uniform(0,0.5)  layers=randint(1,4)
--list takes CSV or TSV with names in its first line, JSON, or one JSON object a line

exit code: 0 when every run has completed, else 1; 130 when it was no longer followed

examples:
  workbench-tui experiment sweep -c local --param lr=0.1,0.01 --param batch=32,64 --max-parallel 2 train.py
  workbench-tui experiment sweep -c gpu --random 20 --seed 1 --param 'lr=loguniform(1e-5,1e-1)' train.py --lr {lr}
  workbench-tui experiment sweep -c local --list values.csv --detach train.py"""
    parser.add_argument("-c", "--run-configuration", metavar="NAME", required=True, help="the .runconfig to run with")
    parser.add_argument("-t", "--target", metavar="TARGET", default="", help="instead of its Target")
    parser.add_argument(
        "--param", metavar="NAME=VALUES", action="append", default=[], help="values of an argument, with commas"
    )
    parser.add_argument("--list", metavar="FILE", default="", help="combinations of values, one run a line")
    parser.add_argument("--random", metavar="N", type=int, default=0, help="so many combinations, at random")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of --random (default: %(default)s)")
    parser.add_argument("--max-parallel", metavar="N", type=int, default=1, help="runs at a time (default: 1)")
    parser.add_argument("--detach", action="store_true", help="print the sweep's name and return")
    parser.add_argument("--dry-run", action="store_true", help="print the runs that would be made, and do nothing")
    add_cpu_option(parser)
    add_output_options(parser, default="", note="with --detach or --dry-run; default: text")
    parser.add_argument("script", metavar="SCRIPT", nargs="?", default="", help="default: the one in ArgumentVector")
    parser.add_argument("arguments", metavar="ARGS", nargs="...", help="the script's arguments, the same for all")


def run_sweep(arguments: argparse.Namespace) -> int:
    """Make the runs and follow them until all have ended, unless told otherwise."""
    # What is told while the runs go on is plain lines already.
    follows_plainly = arguments.plain and not arguments.query and not (arguments.detach or arguments.dry_run)
    wants_record = bool(arguments.output or arguments.query) and not follows_plainly
    if wants_record and not (arguments.detach or arguments.dry_run):
        raise UsageError("-o and --query are for --detach and --dry-run", remedy="Leave them out.")
    runs = Runs(Project.find(arguments.project))
    request, members = _request(runs, arguments)
    if arguments.dry_run:
        runs.plan(request._replace(arguments=members[0].arguments, exact_arguments=True))
        _print_members(request, members, arguments if wants_record else None)
        return 0
    settle_target(runs.project, request)
    made: list[Run] = []
    with telling_of_allow_cpu():
        group = runs.sweep(request, members, arguments.max_parallel, made.append)
    if arguments.detach and wants_record:
        from tui_workbench.runs.history import history_record

        emit([history_record(RunDirectory(run.directory).run()) for run in made], arguments, HISTORY_COLUMNS)
        return 0
    sys.stdout.write(f"Sweep: {group} ({len(made)} runs, {arguments.max_parallel} at a time)\n")
    sys.stdout.flush()
    return 0 if arguments.detach else _follow(runs, group, [RunDirectory(run.directory) for run in made])


def _request(runs: Runs, arguments: argparse.Namespace) -> tuple[RunRequest, Sequence[Member]]:
    from tui_workbench.runs import sweep, sweepvalues

    parameters = [sweepvalues.parameter(text) for text in arguments.param]
    if bool(parameters) == bool(arguments.list):
        raise UsageError("one of --param and --list says what the values are", remedy="See `--help`.")
    if arguments.list:
        sets = sweepvalues.listed(arguments.list)
    elif arguments.random:
        sets = sweepvalues.chosen(parameters, arguments.random, arguments.seed)
    else:
        sets = sweepvalues.grid(parameters)
    request = RunRequest(arguments.run_configuration, arguments.script, tuple(arguments.arguments), arguments.target)
    request = request._replace(allow_cpu=arguments.allow_cpu)
    if not request.script or not request.arguments:
        # What stands in ArgumentVector is the same for all as well.
        spec = runs.specification(request)
        request = request._replace(script=spec.script, arguments=spec.arguments)
    return request, sweep.members_of(request.arguments, sets)


def _print_members(request: RunRequest, members: Sequence[Member], arguments: argparse.Namespace | None) -> None:
    if arguments is not None:
        rows = [{"member": n, "values": m.values, "arguments": list(m.arguments)} for n, m in enumerate(members, 1)]
        emit(rows, arguments)
        return
    import shlex

    for number, member in enumerate(members, 1):
        sys.stdout.write(f"{number}. {visible(shlex.join((request.script, *member.arguments)))}\n")


def _follow(runs: Runs, group: str, members: Sequence[RunDirectory]) -> int:
    """Tell what each run comes to, as it does."""
    told: dict[str, str] = {}
    looked = time.monotonic()
    try:
        while len(ended := [each for each in members if told.get(each.run_id) in _ENDED]) < len(members):
            for directory in members:
                if directory not in ended:
                    _tell(directory, told)
            if time.monotonic() - looked > RESUME_SECONDS:
                runs.resume()
                looked = time.monotonic()
            time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        sys.stderr.write(
            f"\nworkbench-tui: {group} goes on. Cancel what has not begun: "
            f"workbench-tui experiment cancel --group {group}\n"
        )
        return INTERRUPTED
    return 0 if all(state == RunState.COMPLETED for state in told.values()) else 1


_ENDED = frozenset((*RunState.TERMINAL, "unknown how it ended"))


def _tell(directory: RunDirectory, told: dict[str, str]) -> None:
    run = directory.run()
    state = run.state if run.is_active or run.state in RunState.TERMINAL else "unknown how it ended"
    if state == told.get(run.run_id) or (run.is_active and state != RunState.RUNNING):
        return
    told[run.run_id] = state
    note = f": {run.reason}" if run.reason and not run.is_active else ""
    seconds = f" ({run.duration:.1f} s)" if run.duration else ""
    words = " ".join((f"[{run.run_number}]", run.script_name, *run.arguments))
    sys.stdout.write(visible(f"{words}  {state}{seconds}{note}") + "\n")
    sys.stdout.flush()
