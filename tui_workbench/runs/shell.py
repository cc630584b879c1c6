"""A shell in the project, or in the copy of a run, with the target's interpreter first on the PATH.

In it the `az ml ...` lines of the original work: a small `az` stands before the real one. Nothing of the user's own
shell is changed: its startup files are read as ever, and only then the PATH gets what belongs in front. A run's copy
is made anew from its commit, in a folder of its own, so the run stays as it was.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys

from tui_workbench.errors import ConfigurationError, StorageError, UsageError
from tui_workbench.model import RunSpec
from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.runs.rundir import OUTPUTS, WORKING_COPY, storage_error
from tui_workbench.targets.local import PYTHON_PATH_VARIABLE, SDK_FOLDER, find_interpreter, python_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui_workbench.model import RunConfiguration
    from tui_workbench.project import Project
    from tui_workbench.runs.rundir import Record, RunDirectory

COPY = "shell"
"""In the run's directory: the copy for people to look around and try things in."""

FRONT = "WORKBENCH_SHELL_PATH"
"""What stands first on the PATH of the shell, for what its startup files put before it."""

NAME = "WORKBENCH_SHELL"
_DEFAULT_SHELL = "/bin/sh"


class Shell(NamedTuple):
    """A program to start in a terminal, and what to tell before."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    directory: str
    notice: str = ""  # what is not as one would think, in a sentence; "" when all is


def project_shell(project: Project, run_configuration: str = "", *, is_interactive: bool = True) -> Shell:
    """A shell in the project for a run configuration, by default the first one that runs on this machine.

    Raises ConfigurationError, StorageError.
    """
    configuration = project.run_configuration(run_configuration) if run_configuration else _first_here(project)
    if configuration is None:
        return _shell(project.name, project.root, "", {}, "", is_interactive=is_interactive)
    spec = _spec(project, configuration)
    interpreter, notice = _interpreter_of(spec)
    return _shell(
        f"{project.name} {configuration.name}",
        project.root,
        interpreter,
        configuration.environment_variables,
        notice,
        is_interactive=is_interactive,
    )


def run_shell(project: Project, directory: RunDirectory, *, is_interactive: bool = True) -> Shell:
    """A shell in a run's copy of the project: its snapshot, and what the run changed in it.

    Raises UsageError when there is none, ConfigurationError, StorageError.
    """
    from tui_workbench.runs.controller import with_secrets

    record = directory.read_record()
    folder = _copy_of(project, directory, record)
    interpreter, notice = _interpreter_of(record.spec._replace(working_directory=folder))
    try:
        variables = with_secrets(record.spec).run_configuration.environment_variables
    except ConfigurationError as error:
        variables, notice = {}, f"{notice} Its EnvironmentVariables are not set: {error.message}.".strip()
    name = f"{project.name} [{record.run_number}]"
    return _shell(name, folder, interpreter, variables, notice, is_interactive=is_interactive)


def _first_here(project: Project) -> RunConfiguration | None:
    here = {target.name for target in project.targets() if target.type == "local" and target.problem is None}
    found = [each for each in project.run_configurations() if each.problem is None and each.target in here]
    return next((each for each in found if each.name == "local"), found[0] if found else None)


def _spec(project: Project, configuration: RunConfiguration) -> RunSpec:
    return RunSpec(
        run_id="",
        run_directory=os.path.join(project.runs_directory, "none"),
        project_root=project.root,
        project_name=project.name,
        working_directory=project.root,
        script="",
        arguments=(),
        run_configuration=configuration,
        target=project.target_of(configuration),
    )


def _interpreter_of(spec: RunSpec) -> tuple[str, str]:
    """The interpreter of the target, "" where it is not on this machine, and what is to be said about it."""
    target = spec.target
    if target.type != "local":
        name = spec.run_configuration.name
        return "", (
            f"Scripts for {target.name} do not run with this shell's Python: "
            f"`az ml experiment submit -c {name} SCRIPT` runs them there."
        )
    interpreter = find_interpreter(target)
    if target.user_managed_environment:
        return interpreter, ""
    from tui_workbench.targets.managed import managed_environment

    managed = managed_environment(spec, interpreter)
    if managed.recipe.is_met_by(managed.version):
        return interpreter, ""
    if managed.is_whole:
        return managed.python, ""
    name = spec.run_configuration.name
    return interpreter, (
        f"Its environment is not prepared ({managed.why()}), so this is the Python below it: "
        f"`az ml experiment prepare -c {name}` makes it."
    )


def _copy_of(project: Project, directory: RunDirectory, record: Record) -> str:
    """The folder of the run's copy; made when there is none."""
    status = directory.status()
    working_copy = directory.file(WORKING_COPY)
    if record.snapshot == "none" and not record.commit_id:
        return project.root
    if not status.end and os.path.isdir(working_copy):
        return working_copy
    copy = directory.file(COPY)
    if not os.path.isdir(copy):
        _make_copy(project, directory, record, copy)
    return copy


def _make_copy(project: Project, directory: RunDirectory, record: Record, copy: str) -> None:
    from tui_workbench.runs.snapshot import SnapshotStore

    store = SnapshotStore(project.root, project.state_directory)
    working_copy = directory.file(WORKING_COPY)
    building = f"{copy}.{os.getpid()}"
    try:
        if record.snapshot == "git" and store.holds(record.commit_id):
            store.check_out(record.commit_id, building)
        elif record.snapshot != "copy":
            raise UsageError(
                f"the snapshot of {record.run_id} is not on this machine", remedy="Open a shell in the project instead."
            )
        if os.path.isdir(working_copy):
            # What the run changed or made, beside its outputs.
            shutil.copytree(working_copy, building, symlinks=True, dirs_exist_ok=True)
        os.makedirs(os.path.join(building, OUTPUTS), exist_ok=True)
        os.rename(building, copy)
    except shutil.Error as error:
        raise StorageError(f"the copy cannot be made: {error.args[0][0][2]}", file=copy) from error
    except OSError as error:
        if not os.path.isdir(copy):  # else somebody else made it at the same time
            raise storage_error("make", copy, error) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)


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
    environment["PATH"] = os.pathsep.join([*front, *_without_ours(environment.get("PATH", os.defpath))])
    theirs = environment.get(PYTHON_PATH_VARIABLE, "").split(os.pathsep)
    environment[PYTHON_PATH_VARIABLE] = python_path(
        SDK_FOLDER, os.pathsep.join(folder for folder in theirs if folder != SDK_FOLDER)
    )
    program = environment.get("SHELL", "")
    if not os.access(program, os.X_OK):
        program = _DEFAULT_SHELL
    argv = _interactive(program, environment) if is_interactive else (program,)
    return Shell(argv, environment, directory, notice)


def _without_ours(path: str) -> list[str]:
    """The PATH without what another shell of ours put in front of it."""
    base = commands_folder()
    return [folder for folder in path.split(os.pathsep) if os.path.dirname(folder) != base]


def _enter_environment(environment: dict[str, str], prefix: str) -> None:
    """Let the variables of virtual environments say which one this is, and those of another one be gone."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONHOME"):
        environment.pop(name, None)
    if os.path.exists(os.path.join(prefix, "pyvenv.cfg")):
        environment["VIRTUAL_ENV"] = prefix
    elif os.path.isdir(os.path.join(prefix, "conda-meta")):
        environment["CONDA_PREFIX"] = prefix


def commands_folder() -> str:
    """Where the folders lie that our shells have first on their PATH."""
    from tui_workbench.resources import user_cache_directory

    return os.path.join(user_cache_directory(), "shell")


def _commands(interpreter: str) -> str:
    """The folder with `az`, `workbench-tui` and, where its own has another name, the interpreter as `python`."""
    import zlib

    folder = os.path.join(commands_folder(), f"{zlib.crc32(os.fsencode(f'{sys.executable} {interpreter}')):08x}")
    ours = f"exec {shlex.quote(sys.executable)} -P -m tui_workbench"
    commands = {"az": f"{ours} az", "workbench-tui": ours}
    if interpreter:
        for name in ("python", "python3"):
            beside = os.path.join(os.path.dirname(interpreter), name)
            if not os.path.exists(beside) or os.path.realpath(beside) != os.path.realpath(interpreter):
                commands[name] = f"exec {shlex.quote(interpreter)}"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        for name, command in commands.items():
            _write_program(os.path.join(folder, name), f'#!/bin/sh\n{command} "$@"\n')
        for name, text in _STARTUP.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            _write_program(os.path.join(folder, name), text)
    except OSError as error:
        raise storage_error("write", folder, error) from error
    return folder


def _write_program(path: str, text: str) -> None:
    data = text.encode("utf-8", "surrogateescape")
    try:
        with open(path, "rb") as file:
            if file.read() == data:
                return
    except FileNotFoundError:
        pass
    temporary = f"{path}.{os.getpid()}"
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o755), "wb") as file:
        file.write(data)
    os.replace(temporary, path)


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
"""What each shell reads at its start: the user's own files, then what puts our folders in front again."""


def _interactive(program: str, environment: dict[str, str]) -> tuple[str, ...]:
    """The shell as a person uses it, with its startup files and ours; may add to the environment."""
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
