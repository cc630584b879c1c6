"""Open a shell in the project or in the files of a run, with the interpreter of the target first on the PATH.

The `az ml ...` commands of Azure ML Workbench work in the shell, because a script `az` precedes the real program on the
PATH. The shell reads the user's startup files, and then adjusts the PATH. The shell of an ended tracked run uses a copy
of the snapshot and of the files that the run changed outside `outputs/`. The run itself stays unchanged.
"""

from __future__ import annotations

import os
import shlex
import sys
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from tui_workbench.config.schema.data_references import data_in_project
from tui_workbench.config.secret_values import resolved
from tui_workbench.core.directories import user_cache_directory
from tui_workbench.core.errors import ConfigurationError, UsageError, storage_error, storage_errors
from tui_workbench.core.files import is_folder_below, make_folders, remove_below, rename_below, write_if_changed
from tui_workbench.core.model import RunConfiguration, RunSpec
from tui_workbench.projects.project import Project
from tui_workbench.runs.snapshots.file_copy import copy_file
from tui_workbench.runs.snapshots.snapshot import SnapshotStore
from tui_workbench.runs.store.rundir import OUTPUTS, SHELL_COPY, WORKING_COPY, Record, RunDirectory
from tui_workbench.runs.store.secret_arguments import variables_of
from tui_workbench.runs.submission.planning import bare_spec
from tui_workbench.targets.base.run_environment import PYTHON_PATH_VARIABLE, python_path
from tui_workbench.targets.environments.managed import Environments
from tui_workbench.targets.local.local_target import find_interpreter
from tui_workbench.targets.values import SDK_FOLDER

FRONT = "WORKBENCH_SHELL_PATH"  # environment variable: folders that the startup files put first on the PATH

NAME = "WORKBENCH_SHELL"
_DEFAULT_SHELL = "/bin/sh"


class Shell(NamedTuple):
    """A program to start in a terminal."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    directory: str
    notice: str = ""  # a sentence for the user about unexpected properties of the shell


def project_shell(project: Project, run_configuration: str = "", *, is_interactive: bool = True) -> Shell:
    """Return a shell in the project for a run configuration.

    The default is chosen from the run configurations whose scripts run on this machine outside containers: `local` if
    possible, otherwise the first. Without such a configuration, the shell has no interpreter of a target. Raises
    ConfigurationError or StorageError.
    """
    configuration = project.run_configuration(run_configuration) if run_configuration else _first_here(project)
    if configuration is None:
        return _shell(project.name, project.root, "", {}, "", is_interactive=is_interactive)
    interpreter, notice = _interpreter_of(bare_spec(project, configuration, project.target_of(configuration)))
    name = f"{project.name} {configuration.name}"
    variables = resolved(project.root, configuration.environment_variables, configuration.path)
    return _shell(name, project.root, interpreter, variables, notice, is_interactive=is_interactive)


def run_shell(project: Project, directory: RunDirectory, *, is_interactive: bool = True) -> Shell:
    """Return a shell in the files of a run; `_copy_of` chooses the folder.

    Raises RunNotFound, ConfigurationError, StorageError, or UsageError if the snapshot cannot be read on this machine.
    """
    record = directory.read_record()
    folder = _copy_of(project, directory, record)
    interpreter, notice = _interpreter_of(record.spec._replace(working_directory=folder))
    try:
        variables = variables_of(record.spec)
    except ConfigurationError as error:
        variables, notice = {}, f"{notice} The EnvironmentVariables of the run are not set: {error.message}.".strip()
    name = f"{project.name} [{record.run_number}]"
    return _shell(name, folder, interpreter, variables, notice, is_interactive=is_interactive)


def _first_here(project: Project) -> RunConfiguration | None:
    here = {target.name for target in project.targets() if target.kind.runs_here and target.problem is None}
    valid = (configuration for configuration in project.run_configurations() if configuration.problem is None)
    usable = {configuration.name: configuration for configuration in valid if configuration.target in here}
    return usable.get("local") or next(iter(usable.values()), None)


def _interpreter_of(spec: RunSpec) -> tuple[str, str]:
    """Return the path of the target's interpreter, and a notice for the user or "".

    The path is "" if scripts run in a container or on another machine.
    """
    target, name = spec.target, spec.run_configuration.name
    if not target.kind.runs_here:
        return "", (
            f"This shell does not use the Python of target {target.name}. "
            f"To run a script on the target, use `az ml experiment submit -c {name} SCRIPT`."
        )
    interpreter = find_interpreter(target)
    if target.user_managed_environment:
        return interpreter, ""
    managed = Environments().of(spec, interpreter)
    if managed is None:
        return interpreter, ""
    if managed.is_complete:
        return managed.python, ""
    return interpreter, (
        f"The environment of {name} is not prepared ({managed.why()}), so this shell uses the base interpreter. "
        f"To prepare the environment, use `az ml experiment prepare -c {name}`."
    )


def _copy_of(project: Project, directory: RunDirectory, record: Record) -> str:
    """Return the folder for the shell of a run.

    For an untracked run, it is the project; for an active run, the working copy. Otherwise, it is a separate copy of
    the snapshot and of the files that the run changed outside `outputs/`, created if necessary. Raises UsageError if
    the snapshot cannot be read on this machine, and StorageError.
    """
    if record.snapshot == "none" and not record.commit_id:
        return project.root
    if not directory.status().end and is_folder_below(directory.path, WORKING_COPY):
        return directory.file(WORKING_COPY)
    copy = directory.file(SHELL_COPY)
    if is_folder_below(directory.path, SHELL_COPY):
        return copy
    data = data_in_project(project.root, record.spec.run_configuration.data_references)
    store = SnapshotStore(project.root, project.state_directory, data)
    building = f"{copy}.{os.getpid()}"
    name = os.path.basename(building)
    try:
        if record.snapshot == "git" and store.holds(record.commit_id):
            store.check_out(record.commit_id, building)
        elif record.snapshot != "copy":
            raise UsageError(
                f"the snapshot of run {record.run_id} is not on this machine, or git is not installed",
                remedy="Install git if it is missing. Otherwise, open a shell in the project: `workbench-tui shell`.",
            )
        if not os.path.lexists(os.path.join(building, OUTPUTS)):
            make_folders(directory.path, os.path.join(name, OUTPUTS))
        if is_folder_below(directory.path, WORKING_COPY):
            # Add the files that the run changed or created, except its outputs.
            _lay_over(directory.file(WORKING_COPY), building)
        rename_below(directory.path, name, SHELL_COPY)
    except OSError as error:
        if not os.path.isdir(copy):  # otherwise, another process has created it
            raise storage_error("create", copy, error) from error
    finally:
        remove_below(directory.path, name)
    return copy


def _lay_over(source: str, destination: str) -> None:
    """Copy the contents of a folder over another folder. Existing files are replaced; links are not followed."""
    with os.scandir(source) as scan:
        entries = list(scan)
    for entry in entries:
        target = os.path.join(destination, entry.name)
        is_folder = entry.is_dir(follow_symlinks=False)
        if os.path.lexists(target) and not (is_folder and os.path.isdir(target) and not os.path.islink(target)):
            remove_below(destination, entry.name)
        if is_folder:
            make_folders(destination, entry.name)
            _lay_over(entry.path, target)
        elif entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)
        elif entry.is_file(follow_symlinks=False):
            copy_file(entry.path, target)


def _shell(
    name: str, directory: str, interpreter: str, variables: Mapping[str, str], notice: str, *, is_interactive: bool
) -> Shell:
    environment = {**os.environ, **variables}
    front = [_commands(interpreter)]
    if interpreter:
        front.append(os.path.dirname(interpreter))
        _enter_environment(environment, os.path.dirname(os.path.dirname(interpreter)))
    environment[FRONT] = os.pathsep.join(front)
    environment[NAME] = name
    # Remove the folders of an enclosing workbench shell.
    path = environment.get("PATH", os.defpath).split(os.pathsep)
    kept = [folder for folder in path if os.path.dirname(folder) != commands_folder()]
    environment["PATH"] = os.pathsep.join([*front, *kept])
    python_paths = environment.get(PYTHON_PATH_VARIABLE, "").split(os.pathsep)
    others = os.pathsep.join(folder for folder in python_paths if folder != SDK_FOLDER)
    environment[PYTHON_PATH_VARIABLE] = python_path(SDK_FOLDER, others)
    program = environment.get("SHELL", "")
    if not os.access(program, os.X_OK):
        program = _DEFAULT_SHELL
    argv = _interactive(program, environment) if is_interactive else (program,)
    return Shell(argv, environment, directory, notice)


def _enter_environment(environment: dict[str, str], prefix: str) -> None:
    """Remove the variables of virtual environments, and set the variables of an environment at `prefix`."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONHOME"):
        environment.pop(name, None)
    if os.path.exists(os.path.join(prefix, "pyvenv.cfg")):
        environment["VIRTUAL_ENV"] = prefix
    elif os.path.isdir(os.path.join(prefix, "conda-meta")):
        environment["CONDA_PREFIX"] = prefix


def commands_folder() -> str:
    """Return the parent of the folders that are first on the PATH of workbench shells."""
    return os.path.join(user_cache_directory(), "shell")


def _commands(interpreter: str) -> str:
    """Create the folder with `az` and `workbench-tui`, and with `python` if the interpreter has another name.

    Return its path. Raises StorageError.
    """
    folder = os.path.join(commands_folder(), f"{zlib.crc32(os.fsencode(f'{sys.executable} {interpreter}')):08x}")
    workbench = f"exec {shlex.quote(sys.executable)} -P -m tui_workbench"
    commands = {"az": f"{workbench} az", "workbench-tui": workbench}
    if interpreter:
        for name in ("python", "python3"):
            beside = os.path.join(os.path.dirname(interpreter), name)
            if not os.path.exists(beside) or os.path.realpath(beside) != os.path.realpath(interpreter):
                commands[name] = f"exec {shlex.quote(interpreter)}"
    programs = {name: f'#!/bin/sh\n{command} "$@"\n' for name, command in commands.items()}
    with storage_errors("write", folder):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        for name, text in {**programs, **_STARTUP}.items():
            write_if_changed(os.path.join(folder, name), text.encode("utf-8", "surrogateescape"), 0o755)
    return folder


_FRONT_FIRST = f'PATH="${FRONT}:$PATH"\nexport PATH\nhash -r 2>/dev/null\n'

_STARTUP = {
    "startup/bash": (
        "[ -f /etc/bash.bashrc ] && . /etc/bash.bashrc\n[ -f ~/.bashrc ] && . ~/.bashrc\n"
        f'{_FRONT_FIRST}PS1="(${NAME}) $PS1"\n'
    ),
    "startup/.zshenv": 'ZDOTDIR="${WORKBENCH_ZDOTDIR:-$HOME}"\n[ -f "$ZDOTDIR/.zshenv" ] && . "$ZDOTDIR/.zshenv"\n'
    'WORKBENCH_ZDOTDIR="$ZDOTDIR"\nZDOTDIR="${WORKBENCH_SHELL_PATH%%:*}/startup"\n',
    "startup/.zshrc": 'ZDOTDIR="$WORKBENCH_ZDOTDIR"\n[ -f "$ZDOTDIR/.zshrc" ] && . "$ZDOTDIR/.zshrc"\n'
    f'path=(${{(s/:/){FRONT}}} $path)\nPS1="(${NAME}) $PS1"\n',
    "startup/sh": f'{_FRONT_FIRST}PS1="(${NAME}) $PS1"\n',
}
"""Startup files of shells. They read the user's files, and then put the folders of the workbench on the PATH."""


def _interactive(program: str, environment: dict[str, str]) -> tuple[str, ...]:
    """Return the command of an interactive shell that reads the startup files. Variables are added to `environment`."""
    startup = os.path.join(environment[FRONT].split(os.pathsep)[0], "startup")
    name = os.path.basename(program)
    if name == "bash":
        return program, "--rcfile", os.path.join(startup, "bash"), "-i"
    if name == "zsh":
        environment["WORKBENCH_ZDOTDIR"] = environment.get("ZDOTDIR", environment.get("HOME", ""))
        environment["ZDOTDIR"] = startup
        return program, "-i"
    if name == "fish":
        return program, "-i", "-C", f"set -gx PATH (string split : ${FRONT}) $PATH"
    environment["ENV"] = os.path.join(startup, "sh")
    return program, "-i"
