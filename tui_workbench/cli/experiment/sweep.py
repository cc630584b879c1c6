"""`experiment sweep`: start a run for each combination of arguments."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence

from tui_workbench.cli import INTERRUPTED
from tui_workbench.cli.experiment.submit import (
    ALLOW_CPU,
    CONFIGURATION,
    OUTPUT,
    SCRIPT,
    SLURM,
    ensure_target_login,
    suggesting_allow_cpu,
)  # fmt: skip
from tui_workbench.cli.shared.output import HISTORY_COLUMNS, emit, notify, write_lines
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import Run, RunRequest, RunState
from tui_workbench.core.plaintext import counted
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.store.history_record import history_record
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.runs.submission.planning import prepare
from tui_workbench.runs.sweeps import sweep, sweep_values
from tui_workbench.runs.sweeps.sweep import Member

POLL_SECONDS = 0.25
RESUME_SECONDS = 2.0
"""Seconds between checks for runs without a controller."""

configure_sweep = options(
    CONFIGURATION,
    option("-t", "--target", metavar="TARGET", default="", help="override Target of the run configuration"),
    option("--param", metavar="NAME=VALUES", action="append", default=[],
           help="values of an argument, separated by commas; repeatable"),
    option("--list", metavar="FILE", default="", help="a file with the values for each run"),
    option("--random", metavar="N", type=int, default=0, help="run only N random combinations"),
    option("--seed", metavar="N", type=int, default=0, help="the seed of --random (default: %(default)s)"),
    option("--max-parallel", metavar="N", type=int, default=1,
           help="maximum number of runs at the same time (default: %(default)s)"),
    option("--detach", action="store_true", help="print the name of the sweep and return"),
    option("--dry-run", action="store_true", help="print the runs without creating them"),
    SLURM,
    ALLOW_CPU,
    OUTPUT,
    SCRIPT,
    option("arguments", metavar="ARGS", nargs="...", help="script arguments shared by all runs"),
    names_script=True,
    usage="%(prog)s -c NAME (--param NAME=VALUE,... | --list FILE) [--random N [--seed N]]\n"
    "                                      [--max-parallel N] [--detach | --dry-run] SCRIPT [ARGS...]",
    epilog="""\
Creates a run for each combination of the values, all from the same snapshot. A
value replaces `{name}` in the arguments; without `{name}`, `--name value` is
appended. Queued runs start even after this command has ended. Ctrl-C stops
following; `experiment cancel --group SWEEP` cancels queued runs.

With --random N, values can be distributions:
  lr=loguniform(1e-5,1e-1)  dropout=uniform(0,0.5)  layers=randint(1,4)
--list reads CSV or TSV files with a header line, JSON, and JSON Lines.

exit codes:
  0 if every run completed, otherwise 1; 130 if Ctrl-C was pressed

examples:
  workbench-tui experiment sweep -c local --param lr=0.1,0.01 \\
      --param batch=32,64 --max-parallel 2 train.py
  workbench-tui experiment sweep -c gpu --random 20 --seed 1 \\
      --param 'lr=loguniform(1e-5,1e-1)' train.py --lr {lr}
  workbench-tui experiment sweep -c local --list values.csv --detach train.py""",
)  # fmt: skip


def run_sweep(arguments: argparse.Namespace) -> int:
    # Following a sweep prints plain lines anyway.
    follows_plainly = arguments.plain and not arguments.query and not (arguments.detach or arguments.dry_run)
    wants_record = bool(arguments.output or arguments.query) and not follows_plainly
    if wants_record and not (arguments.detach or arguments.dry_run):
        remedy = "Add `--detach` or `--dry-run`, or omit -o and --query."
        raise UsageError("-o and --query need --detach or --dry-run", remedy=remedy)
    runs = Runs(Project.find(arguments.project))
    request, members = _request(runs, arguments)
    if arguments.dry_run:
        runs.plan(request._replace(arguments=members[0].arguments, exact_arguments=True))
        numbered = list(enumerate(members, 1))
        if wants_record:
            rows = [{"member": n, "values": each.values, "arguments": list(each.arguments)} for n, each in numbered]
            return emit(rows, arguments)
        write_lines(f"{number}. {shlex.join((request.script, *each.arguments))}" for number, each in numbered)
        return 0
    ensure_target_login(runs.project, request)
    made: list[Run] = []
    with suggesting_allow_cpu():
        group = runs.sweep(request, members, arguments.max_parallel, made.append)
    if arguments.detach and wants_record:
        records = [history_record(RunDirectory(run.directory).run()) for run in made]
        return emit(records, arguments, HISTORY_COLUMNS)
    sys.stdout.write(f"Sweep: {group} ({counted(len(made), 'run')}, {arguments.max_parallel} at a time)\n")
    sys.stdout.flush()
    return 0 if arguments.detach else _follow(runs, group, [RunDirectory(run.directory) for run in made])


def _request(runs: Runs, arguments: argparse.Namespace) -> tuple[RunRequest, Sequence[Member]]:
    parameters = [sweep_values.parameter(text) for text in arguments.param]
    if bool(parameters) == bool(arguments.list):
        raise UsageError("expected either --param or --list", remedy="Use one, for example `--param lr=0.1,0.01`.")
    if arguments.list:
        sets = sweep_values.listed(arguments.list)
    elif arguments.random:
        sets = sweep_values.chosen(parameters, arguments.random, arguments.seed)
    else:
        sets = sweep_values.grid(parameters)
    request = RunRequest(arguments.run_configuration, arguments.script, tuple(arguments.arguments), arguments.target)
    request = request._replace(allow_cpu=arguments.allow_cpu, slurm=",".join(arguments.slurm))
    if not request.script or not request.arguments:
        # All runs share the arguments in ArgumentVector.
        spec = prepare(runs.project, request).spec
        request = request._replace(script=spec.script, arguments=spec.arguments)
    return request, sweep.members_of(request.arguments, sets)


def _follow(runs: Runs, group: str, members: Sequence[RunDirectory]) -> int:
    """Print the start and the end of each run until all have ended."""
    reported: dict[str, str] = {}
    last_resume = time.monotonic()
    try:
        while len(ended := [each for each in members if reported.get(each.run_id) in _ENDED]) < len(members):
            for directory in members:
                if directory not in ended:
                    _report(directory, reported)
            if time.monotonic() - last_resume > RESUME_SECONDS:
                runs.resume()
                last_resume = time.monotonic()
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        notify(f"{group} continues. Cancel queued runs: workbench-tui experiment cancel --group {group}")
        return INTERRUPTED
    return 0 if all(state == RunState.COMPLETED for state in reported.values()) else 1


UNKNOWN_STATE = "end unknown"
_ENDED = frozenset((*RunState.TERMINAL, UNKNOWN_STATE))


def _report(directory: RunDirectory, reported: dict[str, str]) -> None:
    run = directory.run()
    state = run.state if run.is_active or run.state in RunState.TERMINAL else UNKNOWN_STATE
    if state == reported.get(run.run_id) or (run.is_active and state != RunState.RUNNING):
        return
    reported[run.run_id] = state
    note = f": {run.reason}" if run.reason and not run.is_active else ""
    seconds = f" ({run.duration:.1f} s)" if run.duration else ""
    words = " ".join((f"[{run.run_number}]", run.script_name, *run.arguments))
    write_lines([f"{words}  {state}{seconds}{note}"])
