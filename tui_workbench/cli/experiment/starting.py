"""The options that `submit`, `rerun` and `sweep` share, and the steps before a run starts."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Iterator

from tui_workbench.cli.shared.output import output
from tui_workbench.cli.shared.parser import option
from tui_workbench.cli.shared.prompts import ensure_login
from tui_workbench.core.errors import NoGpu, UsageError
from tui_workbench.core.model import RunRequest, Seeds
from tui_workbench.projects.project import Project
from tui_workbench.runs.submission.planning import basis_of

CONFIGURATION = option("-c", "--run-configuration", metavar="NAME", required=True, help="the .runconfig to use")
DETACH = option("--detach", action="store_true", help="print the run ID and return")
DRY_RUN = option("--dry-run", action="store_true", help="print the plan without running anything")
SLURM = option("--slurm", metavar="KEY=VALUE,...", action="append", default=[],
               help="override options of a Slurm job, such as gpus=2,time=2:00:00; repeatable")  # fmt: skip
ALLOW_CPU = option("--allow-cpu", action="store_true", help="run even if the script would train on the CPU")
OUTPUT = output(default="", note="output format, only with --detach or --dry-run; without -o, the output is text")
SCRIPT = option(
    "script", metavar="SCRIPT", nargs="?", default="", help="the script or notebook (default: from ArgumentVector)"
)
MAX_PARALLEL = option("--max-parallel", metavar="N", type=int, default=1,
                      help="maximum number of runs at the same time (default: %(default)s)")  # fmt: skip
SEEDS = (
    option("--repeat", metavar="N", type=int, default=None, help="run N times with the seeds 1 to N"),
    option("--seed-argument", metavar="NAME", help="the argument with the seed (default: seed)"),
    option("--seed-variable", metavar="NAME", help="set the seed in this environment variable instead"),
)

_SYSTEM_VARIABLES = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|IFS|ENV|LANG|TERM|TMPDIR|PYTHONPATH|PYTHONHOME|(LC|LD|CUDA|SLURM)_\w*"
    r"|(WORKBENCH|AZUREML|NVIDIA|ROCR)_\w*"
)
"""Variables that have a meaning to the system, Python, GPUs or the workbench."""


def seeds_of(arguments: argparse.Namespace) -> Seeds | None:
    """Return the seeds of `--repeat`, or None. Raises UsageError."""
    name, variable = arguments.seed_argument, arguments.seed_variable
    if arguments.repeat is None:
        if name is not None or variable is not None:
            raise UsageError(
                "--seed-argument and --seed-variable need --repeat", remedy="Add `--repeat N`, or omit these options."
            )
        return None
    if arguments.repeat < 2:
        raise UsageError(
            f"--repeat {arguments.repeat} does not repeat anything", remedy="Use 2 or more, or omit --repeat."
        )
    if name is not None and variable is not None:
        raise UsageError(
            "--seed-argument cannot be used with --seed-variable", remedy="Omit --seed-argument or --seed-variable."
        )
    for option_name, text, pattern in (
        ("--seed-argument", name, r"\w[\w.-]*"),
        ("--seed-variable", variable, r"[A-Za-z_]\w*"),
    ):
        if text is not None and not re.fullmatch(pattern, text, re.ASCII):
            raise UsageError(
                f"{option_name} {text!r} is not a valid name",
                remedy="Use letters, digits and `_`, and begin with a letter. For the option `--seed`, write `seed`.",
            )
    if variable is not None and _SYSTEM_VARIABLES.fullmatch(variable):
        raise UsageError(
            f"--seed-variable {variable} would replace a variable of the system or the workbench",
            remedy="Use a name that only your script reads, such as `SEED`.",
        )
    return Seeds(arguments.repeat, name or "seed", variable or "")


@contextlib.contextmanager
def suggesting_allow_cpu() -> Iterator[None]:
    """Add --allow-cpu to the remedy of a NoGpu error."""
    try:
        yield
    except NoGpu as error:
        error.remedy = f"{error.remedy}\nTo run on the CPU, add `--allow-cpu`."
        raise


def ensure_target_login(project: Project, request: RunRequest) -> None:
    """Log in to the target of a request, asking for missing secrets. Raises WorkbenchError."""
    target = basis_of(project, request).target
    if target.uses_ssh:
        ensure_login(target)
