"""The command and the environment variables of a script, built in the same way for every target.

With `Framework: PySpark`, the command starts spark-submit (see spark.py).

For a notebook, the command starts nbclient (see sdk/workbench_notebook.py). For a run of `notebook`, it waits for a
client, and then starts Jupyter (see sdk/workbench_jupyter.py).

For a project that can be installed, the command first replaces the packages of the project by those of the working copy
(see sdk/workbench_packages.py).

With `ProcessesPerNode`, the command starts torchrun, which chooses a free port. Each rank writes to a file in the run's
directory, and output.log holds the lines of all ranks (see sdk/workbench_ranks.py). On several nodes, the target
starts the command on each node, and sets the variables that workbench_ranks.py reads.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Iterable, Mapping, Sequence

from tui_workbench.config.secret_values import PREFIX as SECRET_PREFIX
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.masking import MASK, mask_text
from tui_workbench.core.model import RunConfiguration, RunSpec
from tui_workbench.core.notebooks import is_notebook
from tui_workbench.core.plaintext import counted
from tui_workbench.core.secret_names import is_secret, is_shell_name, shell_name
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.base.spark import Spark, framework_reason, submit_words
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.processes import RUN_DIRECTORY_VARIABLE, RUN_ID_VARIABLE

SHARE_VARIABLE = "AZUREML_NATIVE_SHARE_DIRECTORY"
OUTPUTS_VARIABLE = "WORKBENCH_OUTPUTS_DIRECTORY"
"""The variable with the folder `outputs/` of the run, for scripts that change their working directory."""
ATTEMPT_VARIABLE = "WORKBENCH_ATTEMPT"  # the number of the attempt; the first is 1
RESUME_VARIABLE = "WORKBENCH_RESUME"  # 1 if an earlier attempt may have left a checkpoint, else not set

PYTHON_PATH_VARIABLE = "PYTHONPATH"

DEFAULT_SHARE = "~/.azureml/share/"
"""Azure ML Workbench's folder for files that runs share."""

LAUNCHER = "workbench_ranks.py"
NOTEBOOK_LAUNCHER = "workbench_notebook.py"
JUPYTER_LAUNCHER = "workbench_jupyter.py"
PACKAGES_LAUNCHER = "workbench_packages.py"
_INSTALLABLE = ("pyproject.toml", "setup.py", "setup.cfg")

RENDEZVOUS_VARIABLE = "WORKBENCH_RENDEZVOUS"
RENDEZVOUS_WORD = f"--rdzv_endpoint=${RENDEZVOUS_VARIABLE}"
"""The option of torchrun for the address of the first node, which is not known before the run starts."""

HELPERS_SECONDS = 0.2
"""Seconds that helper processes of a script (such as those of `multiprocessing`) have to notice its end."""

LEFT_BEHIND_GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL for processes that outlive the script."""

_SHELL_VARIABLES = frozenset(
    ("ENV", "IFS", "LINENO", "MAIL", "OLDPWD", "OPTARG", "OPTIND", "PPID", "PS1", "PS2", "PS4", "PWD", "SHLVL", "_")
).union(supervisor.VARIABLES)
"""Variables that a shell overwrites by itself, or that the script of the supervising shell uses."""


def require_python(configuration: RunConfiguration, target_type: str) -> None:
    """Raise ConfigurationError if the run configuration uses Spark, which targets of this type cannot start."""
    if configuration.uses_spark:
        key = configuration.key("Framework")
        raise ConfigurationError(
            f"{framework_reason(configuration)}, but targets of type {target_type} cannot start Spark",
            remedy=f"Set `{key}: Python`, or use a target of type local, remote, cluster, localdocker or remotedocker.",
            file=configuration.path,
            line=line_of_key(configuration.path, key),
        )


def refuse_impossible(path: str, variables: Mapping[str, str], command: Sequence[str]) -> None:
    """Raise ConfigurationError for variables and arguments that no process can receive."""
    names = [name for name in variables if not name or "=" in name or "\0" in name]
    if names:
        raise ConfigurationError(
            f"invalid variable name {names[0]!r}",
            remedy="Use a name that is not empty and contains neither `=` nor a NUL character.",
            file=path,
            line=line_of_key(path, "EnvironmentVariables"),
        )
    _refuse_visible(path, variables)
    named = [f"the value of {name}" for name, value in variables.items() if "\0" in value]
    if named or any("\0" in word for word in command):
        raise ConfigurationError(
            f"{named[0] if named else 'an argument of the script'} contains a NUL character",
            remedy="Remove the NUL character; YAML writes it as `\\0`.",
            file=path,
        )


def _refuse_visible(path: str, variables: Mapping[str, str]) -> None:
    """Raise ConfigurationError for secrets that `prefix_env` would put into an argument list, which `ps` shows."""
    for name, value in variables.items():
        is_hidden = value.startswith(SECRET_PREFIX) or MASK in value or is_secret(name, value)
        if (is_hidden or mask_text(value) != value) and not _passes_shell(name):
            raise ConfigurationError(
                f"the secret variable {name!r} has a name that a shell drops or overwrites, so it could only be passed "
                "in an argument list, which other users of the machine can read",
                remedy=f"Rename it, for example to {_other_name(name)}, and read this name in the script.",
                file=path,
                line=line_of_key(path, name),
            )


def _other_name(name: str) -> str:
    plain = shell_name(name)
    return plain if _passes_shell(plain) else f"MY_{plain}"


def _passes_shell(name: str) -> bool:
    return is_shell_name(name) and name not in _SHELL_VARIABLES


def script_command(
    spec: RunSpec,
    interpreter: str,
    sdk: str,
    run_directory: str,
    spark: Spark | None = None,
    socket_folder: str = "",
) -> tuple[str, ...]:
    """Return the argument vector: interpreter, launcher of ranks or of a notebook if needed, script, arguments.

    For a tracked run of a project that can be installed, workbench_packages.py comes first and executes all of this.

    With `spark`, `spark-submit` and its options precede the script instead. `sdk`, `run_directory` and `socket_folder`
    are paths from the script's point of view. The last is the folder for the socket of a run that starts Jupyter, by
    default `run_directory`. With several nodes, the target replaces the variable in RENDEZVOUS_WORD. Raises
    ConfigurationError.
    """
    own_packages: tuple[str, ...] = ()
    if _may_install_packages(spec):
        own_packages = (interpreter, f"{sdk}/{PACKAGES_LAUNCHER}", run_directory, spec.project_root)
    if spec.starts_jupyter:
        return (*own_packages, interpreter, f"{sdk}/{JUPYTER_LAUNCHER}", socket_folder or run_directory)
    launcher: tuple[str, ...] = ()
    if is_notebook(spec.script):
        _require_no_torchrun(spec)
        launcher = (f"{sdk}/{NOTEBOOK_LAUNCHER}",)
    if processes := spec.run_configuration.processes_per_node:
        # Option names of PyTorch 1.9, which later versions also accept.
        meeting: tuple[str, ...] = ("--standalone",)
        if spec.nodes > 1:
            meeting = (f"--nnodes={spec.nodes}", "--rdzv_backend=c10d", f"--rdzv_id={spec.run_id}", RENDEZVOUS_WORD)
        count = "gpu" if processes == "gpus" else processes
        words = ("-m", "torch.distributed.run", *meeting, f"--nproc_per_node={count}")
        launcher = (f"{sdk}/{LAUNCHER}", f"{run_directory}/{supervisor.RANKS}", *words)
    # The interpreter would read a name with a leading hyphen as an option.
    script = f"./{spec.script}" if spec.script.startswith("-") else spec.script
    before = (interpreter, *launcher) if spark is None else submit_words(spec, spark, interpreter, run_directory)
    return (*own_packages, *before, script, *spec.arguments)


def _may_install_packages(spec: RunSpec) -> bool:
    """Return True if an environment can import packages from the folder of the project instead of the working copy.

    This is possible after `pip install -e` and with PYTHONPATH. Untracked runs use the folder of the project itself.
    """
    path = spec.run_configuration.environment_variables.get(PYTHON_PATH_VARIABLE, "")
    if not spec.tracked:
        return False
    folders = [spec.project_root]
    with contextlib.suppress(OSError), os.scandir(spec.project_root) as entries:
        folders += [entry.path for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    return any(os.path.exists(os.path.join(folder, name)) for folder in folders for name in _INSTALLABLE) or any(
        part == spec.project_root or part.startswith(spec.project_root + os.sep) for part in path.split(os.pathsep)
    )


def _require_no_torchrun(spec: RunSpec) -> None:
    configuration = spec.run_configuration
    if configuration.processes_per_node:
        raise ConfigurationError(
            f"torchrun, which `ProcessesPerNode` starts, cannot run the notebook {spec.script}",
            remedy="Remove `ProcessesPerNode`, or convert the notebook with `jupyter nbconvert --to script`.",
            file=configuration.path,
            line=line_of_key(configuration.path, "ProcessesPerNode"),
        )


def describe_launcher(spec: RunSpec) -> str:
    """Return a phrase about the launcher and the nodes for the plan, with a leading space.

    The phrase is empty for a script without a launcher on one node.
    """
    if spec.run_configuration.uses_spark:
        return " under spark-submit"
    if is_notebook(spec.script):
        return " under nbclient"
    processes = spec.run_configuration.processes_per_node
    on_nodes = f" on each of {spec.nodes} nodes" if spec.nodes > 1 else ""
    if not processes:
        return on_nodes
    if processes == "gpus":
        return f" under torchrun, a process for each GPU{on_nodes}"
    return f" under torchrun, {counted(int(processes), 'process')}{on_nodes}"


def prefix_env(
    command: Sequence[str], variables: Mapping[str, str], reserved: Iterable[str] | None = None
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Prefix a command with `env NAME=VALUE` for variables that a shell would drop or overwrite.

    Returns the command and the remaining variables. A shell drops variables whose names are not identifiers. If
    `reserved` is given, variables that it does not contain do not count as overwritten.
    """
    taken = _SHELL_VARIABLES if reserved is None else _SHELL_VARIABLES.intersection(reserved)
    passing = {name: value for name, value in variables.items() if is_shell_name(name) and name not in taken}
    prefixed = [f"{name}={value}" for name, value in variables.items() if name not in passing]
    return (("/usr/bin/env", "--", *prefixed) if prefixed else ()) + tuple(command), passing


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
    """Return the variables that the workbench and the run configuration add.

    The run configuration has precedence, except for the run ID and the folder `sdk`, which is first in PYTHONPATH.

    Folders are paths from the script's point of view. `inherited_path` follows `sdk` in PYTHONPATH if the run
    configuration does not set this variable.
    """
    own = spec.run_configuration.environment_variables
    path = python_path(sdk, own.get(PYTHON_PATH_VARIABLE, inherited_path))
    return {
        "PYTHONUNBUFFERED": "1",
        SHARE_VARIABLE: posixpath.join(share, ""),
        "AZUREML_RUN_ID": spec.run_id,
        RUN_DIRECTORY_VARIABLE: run_directory,
        OUTPUTS_VARIABLE: outputs,
        **_attempt(spec),
        **(others or {}),
        **own,
        **({PYTHON_PATH_VARIABLE: path} if sdk else {}),
        RUN_ID_VARIABLE: spec.run_id,
    }


def _attempt(spec: RunSpec) -> dict[str, str]:
    """Return the variables of a run that `Retry` may start again, or that was started again."""
    if not spec.run_configuration.retry and spec.attempt == 1:
        return {}
    return {ATTEMPT_VARIABLE: str(spec.attempt)} | ({RESUME_VARIABLE: "1"} if spec.attempt > 1 else {})


def python_path(first: str, rest: str) -> str:
    """Join two Python paths without an empty part, which would mean the current directory."""
    return f"{first}{os.pathsep}{rest}" if rest else first


def shared_folder(spec: RunSpec, home: str) -> str:
    """Return the folder on a host that the runs of a project share; `home` is the user's home directory there."""
    base = spec.target.native_shared_directory or DEFAULT_SHARE
    if base == "~" or base.startswith("~/"):
        base = home + base[1:]
    elif not base.startswith("/"):
        base = posixpath.join(home, base)
    return posixpath.join(base, spec.project_name)
