"""The options of `submit` and `sweep` that repeat runs with different seeds."""

from __future__ import annotations

import argparse
import re

from tui_workbench.cli.shared.parser import option
from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import Seeds

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
