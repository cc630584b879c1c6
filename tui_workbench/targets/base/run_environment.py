"""What every script finds on its target: its command, its variables, the SDK, torchrun and the share of its project.

Under torch.distributed.run there is one process of torchrun for a run, whatever the target: it finds a free port by
itself. Each rank writes into a file of the run's directory, and output.log holds the lines of all of them (see
sdk/workbench_ranks.py).
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Mapping, Sequence

import tui_workbench
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import RunConfiguration, RunSpec
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.processes import RUN_DIRECTORY_VARIABLE, RUN_ID_VARIABLE

SHARE_VARIABLE = "AZUREML_NATIVE_SHARE_DIRECTORY"
OUTPUTS_VARIABLE = "WORKBENCH_OUTPUTS_DIRECTORY"
"""Where files go that are kept with the run, wherever the script's working directory is by then."""

PYTHON_PATH_VARIABLE = "PYTHONPATH"
SDK_FOLDER = os.path.join(os.path.dirname(tui_workbench.__file__), "sdk")
"""What `import workbench` and the original's names come from; first on every run's Python path."""

DEFAULT_SHARE = "~/.azureml/share/"
"""Where the original put what runs share (workbench reference, 1a)."""

LAUNCHER = "workbench_ranks.py"
"""The launcher of ranks in the SDK's folder."""

HELPERS_SECONDS = 0.2
"""How long a script's helpers (such as those of `multiprocessing`) may take to notice that it has ended."""

LEFT_BEHIND_GRACE = 2.0
"""Seconds that processes which outlive the script have to end when they are asked to."""

_SHELL_VARIABLES = frozenset(
    ("ENV", "IFS", "LINENO", "MAIL", "OLDPWD", "OPTARG", "OPTIND", "PPID", "PS1", "PS2", "PS4", "PWD", "SHLVL", "_")
).union(supervisor.VARIABLES)
"""Names that a shell may give values of its own, and that the supervising one does."""


# -- what is asked of a run before anything is done ------------------------------------------------------------------


def require_python(configuration: RunConfiguration) -> None:
    """Raise ConfigurationError when the run configuration wants Spark."""
    if configuration.framework.lower() == "python":
        return
    key = configuration.key("Framework")
    said = f"{key} is PySpark" if key in configuration.values else f"{key} is missing, which means PySpark"
    raise ConfigurationError(
        f"{said}, and Spark runs are not supported yet",
        remedy=f"Set `{key}: Python`.",
        file=configuration.path,
        line=line_of_key(configuration.path, key),
    )


def refuse_impossible(path: str, variables: Mapping[str, str], command: Sequence[str]) -> None:
    """Raise ConfigurationError for variables and arguments that no process can be given; `path` is the runconfig."""
    names = [name for name in variables if not name or "=" in name or "\0" in name]
    if names:
        raise ConfigurationError(
            f"{names[0]!r} can be no name of a variable",
            remedy="Give it another name.",
            file=path,
            line=line_of_key(path, "EnvironmentVariables"),
        )
    if any("\0" in text for text in (*variables.values(), *command)):
        raise ConfigurationError(
            "a variable's value or an argument holds a NUL character", remedy="No process can be given one.", file=path
        )


# -- the command -----------------------------------------------------------------------------------------------------


def script_command(spec: RunSpec, interpreter: str, sdk: str, run_directory: str) -> tuple[str, ...]:
    """The argument vector of the script: the interpreter, the launcher of ranks if there is one, script, arguments.

    `sdk` and `run_directory` are folders as the script will see them.
    """
    launcher: tuple[str, ...] = ()
    if processes := spec.run_configuration.processes_per_node:
        # The options' names of PyTorch 1.9, which its later versions know as well.
        count = "gpu" if processes == "gpus" else processes
        words = ("-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={count}")
        launcher = (f"{sdk}/{LAUNCHER}", f"{run_directory}/{supervisor.RANKS}", *words)
    # A name that begins with a hyphen would be read as an option of the interpreter.
    script = f"./{spec.script}" if spec.script.startswith("-") else spec.script
    return (interpreter, *launcher, script, *spec.arguments)


def describe_launcher(spec: RunSpec) -> str:
    """What a plan says of torchrun; begins with a space, empty for a script that is started by itself."""
    processes = spec.run_configuration.processes_per_node
    if not processes:
        return ""
    if processes == "gpus":
        return " under torchrun, a process for each GPU"
    return f" under torchrun, {processes} process{'' if processes == '1' else 'es'}"


def prefix_env(
    command: Sequence[str], variables: Mapping[str, str], reserved: Iterable[str] | None = None
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The command with `env` before it for the variables that a shell would not pass on as they are, and the others.

    A shell keeps only variables whose names it could have set itself, and the supervising one has values of its own for
    some names; of those only the `reserved` ones count, if given.
    """
    taken = _SHELL_VARIABLES if reserved is None else _SHELL_VARIABLES.intersection(reserved)
    passing = {
        name: value for name, value in variables.items() if name.isascii() and name.isidentifier() and name not in taken
    }
    odd = [f"{name}={value}" for name, value in variables.items() if name not in passing]
    return (("/usr/bin/env", "--", *odd) if odd else ()) + tuple(command), passing


# -- the variables ---------------------------------------------------------------------------------------------------


def run_variables(
    spec: RunSpec,
    *,
    share: str,
    run_directory: str,
    outputs: str,
    sdk: str,
    inherited_path: str = "",
    others: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """What the script sees on top of its target's variables; the run configuration's own win over ours and `others`.

    The folders are as the script will see them. `inherited_path` is the Python path where the run sets none.
    """
    own = spec.run_configuration.environment_variables
    path = python_path(sdk, own.get(PYTHON_PATH_VARIABLE, inherited_path))
    return {
        "PYTHONUNBUFFERED": "1",
        SHARE_VARIABLE: posixpath.join(share, ""),
        "AZUREML_RUN_ID": spec.run_id,
        RUN_DIRECTORY_VARIABLE: run_directory,
        OUTPUTS_VARIABLE: outputs,
        **(others or {}),
        **own,
        **({PYTHON_PATH_VARIABLE: path} if sdk else {}),
        RUN_ID_VARIABLE: spec.run_id,
    }


def python_path(first: str, user_s: str) -> str:
    """A Python path that begins with a folder; an empty part would mean the current directory, so none is made."""
    return f"{first}{os.pathsep}{user_s}" if user_s else first


def shared_folder(spec: RunSpec, home: str) -> str:
    """The folder on a host that runs of the project share; `home` is the user's home directory there."""
    base = spec.target.native_shared_directory or DEFAULT_SHARE
    if base == "~" or base.startswith("~/"):
        base = home + base[1:]
    elif not base.startswith("/"):
        base = posixpath.join(home, base)
    return posixpath.join(base, spec.project_name)
