"""`experiment sweep`: start a run for each combination of arguments."""

from __future__ import annotations

import argparse

from tui_workbench.cli.experiment.members import run_members
from tui_workbench.cli.experiment.starting import (
    ALLOW_CPU,
    CONFIGURATION,
    MAX_PARALLEL,
    OUTPUT,
    SCRIPT,
    SEEDS,
    SLURM,
    seeds_of,
)
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.sweeps import sweep_values

configure_sweep = options(
    CONFIGURATION,
    option("-t", "--target", metavar="TARGET", default="", help="override Target of the run configuration"),
    option("--param", metavar="NAME=VALUES", action="append", default=[],
           help="values of an argument, separated by commas; values with commas are quoted as in CSV; repeatable"),
    option("--list", metavar="FILE", default="", help="a file with the values for each run"),
    option("--random", metavar="N", type=int, help="run only N random combinations"),
    option("--seed", metavar="N", type=int, default=0, help="the seed of --random (default: %(default)s)"),
    *SEEDS,
    MAX_PARALLEL,
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
value replaces `{name}` in the arguments, or the value of an option `--name`;
without these, it is appended as `--name value`, or as `--name=value` if other
arguments have this form. If the arguments contain `--`, the option is inserted
before it. With --repeat N, each combination runs with the seeds 1 to N. Queued
runs start even after this command has ended. Ctrl-C stops following;
`experiment cancel --group SWEEP` cancels queued runs.

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
    seeds = seeds_of(arguments)
    parameters = [sweep_values.parse_parameter(text) for text in arguments.param]
    if bool(parameters) == bool(arguments.list):
        raise UsageError("expected either --param or --list", remedy="Use one, for example `--param lr=0.1,0.01`.")
    if arguments.list:
        sets = sweep_values.listed(arguments.list)
    elif arguments.random is not None:
        sets = sweep_values.chosen(parameters, arguments.random, arguments.seed)
    else:
        sets = sweep_values.grid(parameters)
    request = RunRequest(arguments.run_configuration, arguments.script, tuple(arguments.arguments), arguments.target)
    request = request._replace(allow_cpu=arguments.allow_cpu, slurm=",".join(arguments.slurm))
    return run_members(Project.find(arguments.project), request, sets, seeds, arguments)
