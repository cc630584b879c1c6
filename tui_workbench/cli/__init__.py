"""The command line: a noun, a verb and options. Only the module of the given command is imported.

A command that waits for a run exits with the exit code of its script, or with 130 if the run was canceled. Other exit
codes: 0 for success, 1 for an error on this machine, 2 for wrong usage, 3 for a configuration problem, 4 if the target
is unreachable, and 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import errno
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

import tui_workbench
from tui_workbench.cli.shared.parser import Parser
from tui_workbench.cli.shared.progress_bar import shared
from tui_workbench.core import progress
from tui_workbench.core.errors import StorageError, UsageError, WorkbenchError
from tui_workbench.core.plaintext import visible

INTERRUPTED = 130

JSON_SCHEMA = 1
"""Version of the output of `-o json`. Increase it if a field is removed, or if its type or meaning changes."""

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class Command(NamedTuple):
    """A command with its module in this package and its help line.

    The module defines `configure_WORD(parser)` and `run_WORD(arguments)`, where WORD is the last word of the name.
    """

    name: str
    module: str
    help: str

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.name.split())

    @property
    def function(self) -> str:
        """The word after `configure_` and `run_` in the names of the functions."""
        return self.words[-1].replace("-", "_")


COMMANDS = (
    Command("experiment submit", "experiment.submit", "run a script on a target and follow its output"),
    Command("experiment rerun", "experiment.rerun", "run a snapshot again, unchanged or with changes"),
    Command("experiment sweep", "experiment.sweep", "run a script with many combinations of arguments"),
    Command("experiment status", "experiment.status", "show the state of a run"),
    Command("experiment stacks", "experiment.stacks", "show the Python stacks of a run"),
    Command("experiment cancel", "experiment.cancel", "cancel a run and wait until its processes have ended"),
    Command(
        "experiment resume",
        "experiment.maintenance",
        "watch active runs again, or start an ended or imported run",
    ),
    Command("experiment prepare", "experiment.maintenance", "build the environment of a run configuration"),
    Command("experiment collect", "experiment.maintenance", "fetch the missing files of ended runs"),
    Command("experiment clean", "experiment.maintenance", "remove unused files, containers and environments"),
    Command("logs", "logs", "print or follow the output of a run"),
    Command("open", "ports", "open TensorBoard, Jupyter or a port of a run"),
    Command("notebook", "notebook", "start Jupyter on the files of the project"),
    Command("port list", "ports", "list the open ports of runs"),
    Command("port close", "ports", "close open ports of runs"),
    Command("doctor", "doctor.doctor", "check this machine and suggest fixes"),
    Command("completion", "completion", "print the completion script for a shell"),
    Command("agent-guide", "agent.agent_guide", "print instructions for coding agents"),
    Command("serve", "screens", "serve the screens to a browser on this machine"),
    Command("mcp", "agent.mcp", "serve tools for coding agents on stdin or a Unix socket"),
    Command("agent list", "agent.requests", "list the runs of agents that wait for your approval"),
    Command("agent show", "agent.requests", "show the plan of a run that waits for your approval"),
    Command("agent approve", "agent.requests", "start a run that waits for your approval"),
    Command("agent deny", "agent.requests", "deny a run that waits for your approval"),
    Command("theme list", "theme", "list the themes of the screens"),
    Command("theme check", "theme", "check a theme file for errors and poor contrast"),
    Command("theme use", "theme", "choose the theme that the screens start with"),
    Command("notify add", "notify", "add a channel for notifications: e-mail, ntfy, Slack and others"),
    Command("notify list", "notify", "list the channels for notifications"),
    Command("notify remove", "notify", "remove a channel and its URL"),
    Command("notify test", "notify", "send a test message to the channels"),
    Command("keys", "screens", "list the keys of the screens, and check keys.yaml"),
    Command("status", "status", "show active runs, for tmux or a shell prompt"),
    Command("trace", "trace", "list calls to ssh, docker, git and other programs"),
    Command("shell", "shell", "open a shell in the project or in the files of a run"),
    Command("history list", "history.history", "list the runs of the project, newest first"),
    Command("history families", "history.compare", "list families of runs that differ only in the seed"),
    Command("history last", "history.history", "show the newest run"),
    Command("history info", "history.history", "show a run, or print one of its artifacts"),
    Command("history compare", "history.compare", "show the differences between runs"),
    Command("history download", "history.artifacts", "copy the files of a run into a folder"),
    Command("history promote", "history.artifacts", "save an artifact of a run as a version of an asset"),
    Command("history tag", "history.history", "add tags to a run, or remove them"),
    Command("history note", "history.history", "set the note of a run"),
    Command("history archive", "history.history", "hide a run from lists and keep its files"),
    Command("history pin", "history.history", "pin a run to the top of the runs table"),
    Command("history delete", "history.trash", "move runs to the trash"),
    Command("history restore", "history.trash", "move runs from the trash back to the history"),
    Command("history purge", "history.trash", "delete the runs in the trash and free their disk space"),
    Command("history export", "history.artifacts", "export runs to an MLflow file store or CSV"),
    Command("history import", "history.artifacts", "import runs from an MLflow file store"),
    Command("history sync", "experiment.maintenance", "fetch runs that other machines submitted to a target"),
    Command("asset list", "asset", "list the assets of the project"),
    Command("asset download", "asset", "copy the files of an asset into a folder"),
    Command("computetarget list", "computetarget.listing", "list the compute targets of the project"),
    Command("computetarget attach", "computetarget.attach", "attach a machine, Docker engine or cluster as a target"),
    Command("computetarget check", "computetarget.check", "check a compute target and suggest fixes"),
    Command("computetarget prepare", "computetarget.prepare", "install the driver, Docker or Python on a machine"),
    Command("computetarget cloud-init", "computetarget.prepare", "print a file that prepares a new cloud machine"),
    Command("computetarget login", "computetarget.attach", "log in to a target, and store missing secrets"),
    Command("computetarget disconnect", "computetarget.attach", "close the SSH connection to a target; runs continue"),
    Command("computetarget detach", "computetarget.attach", "remove a compute target and its secrets"),
    Command("gpu list", "gpu.gpu", "list the GPUs of all targets and their users"),
    Command("gpu top", "gpu.gpu", "list the processes on the GPUs of all targets"),
    Command("gpu check", "gpu.gpu", "check that runs on a target would use its GPUs"),
    Command("gpu reserve", "gpu.reservations", "reserve free GPUs of a shared machine for a time"),
    Command("gpu extend", "gpu.reservations", "extend your reservations of GPUs"),
    Command("gpu release", "gpu.reservations", "end your reservations of GPUs"),
    Command("gpu reservations", "gpu.reservations", "list reservations of GPUs, and runs that wait for GPUs"),
    Command("runconfiguration list", "runconfiguration", "list the run configurations of the project"),
    Command("runconfiguration create", "runconfiguration", "create a run configuration for a compute target"),
    Command("runconfiguration delete", "runconfiguration", "move a run configuration to the trash"),
    Command("config check", "config", "check configuration files for errors and give advice"),
    Command("config get", "config", "print a value of a configuration file"),
    Command("config set", "config", "set a value; change no other byte"),
    Command("config unset", "config", "remove a key or list item; change no other byte"),
    Command("config fix", "config", "apply the fixes that `config check` offers"),
    Command("config gpu-ready", "config_gpu_ready", "change the configuration so that runs use the GPU"),
    Command("config schema", "config", "print the JSON Schema of the configuration files"),
    Command("project create", "project", "create a project from a template"),
    Command("project clone", "project", "clone a git repository into a new folder"),
    Command("project add", "project", "turn an existing folder into a project"),
    Command("project recent", "project", "list the recent projects"),
    Command("project restore", "project", "restore the project files from the snapshot of a run"),
    Command("project sample list", "project", "list the project templates"),
)
AZ = "az"
"""The first argument when the `az` of `workbench-tui shell` calls `workbench-tui`."""

NOUNS = frozenset(command.words[0] for command in COMMANDS)


def run(arguments: Sequence[str]) -> int:
    """Run a command, or open the screens. Return the exit code. Errors for the user are printed to stderr."""
    try:
        # A word such as `serve` is a command even if a folder has this name: `./serve` opens the folder.
        command, rest = find_command(arguments)
        if command is not None:
            code = _run_command(command, rest)
        elif arguments and arguments[0] == AZ:
            code = _load(AZ).main(arguments[1:], run)
        elif arguments and arguments[0] in NOUNS:
            code = _unknown_verb(arguments)
        else:
            code = _without_command(arguments)
        sys.stdout.flush()
    except WorkbenchError as error:
        sys.stdout.flush()
        _print_error("\n".join(map(visible, error.lines)))
        return error.exit_code
    except BrokenPipeError:
        # The reader of stdout is gone (`| head`). Discard the rest of the output, so that no flush fails.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def report_system_error(error: OSError) -> int:
    """Print an unhandled system error to stderr and return the exit code.

    The usual cause is a write to stdout: the disk is full, or the terminal is gone.
    """
    remedy = "Check that the file exists and that you have permission to use it."
    if not error.filename:
        remedy = "Check the terminal, or the file that the output is redirected to."
    if error.errno in _NO_SPACE:
        remedy = "Free some space, or redirect the output to another disk."
    failure = StorageError(
        f"{'' if error.filename else 'cannot write the output: '}{(error.strerror or str(error)).lower()}",
        remedy=remedy,
        file=os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else "",
    )
    _print_error(visible(str(failure)))
    return failure.exit_code


def _print_error(text: str) -> None:
    try:
        sys.stderr.write(f"workbench-tui: {text}\n")
        sys.stderr.flush()
    except OSError:
        pass  # stderr is full or gone as well; the exit code reports the failure


def find_command(arguments: Sequence[str]) -> tuple[Command | None, Sequence[str]]:
    """Return the command that the arguments begin with, or None, and the remaining arguments."""
    for command in COMMANDS:
        size = len(command.words)
        if tuple(arguments[:size]) == command.words:
            return command, arguments[size:]
    return None, arguments


def parse(command: Command, words: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of a command. Raises UsageError, or SystemExit after printing help."""
    parsed = build_parser(command).parse(words)
    if getattr(parsed, "plain", False):
        # `--plain` selects an output format, as `-o` does, and turns progress bars into lines.
        shared().be_plain()
        if hasattr(parsed, "output"):
            parsed.output = "plain"
    return parsed


def build_parser(command: Command) -> Parser:
    parser = Parser(f"workbench-tui {command.name}", command.help)
    configure(command, parser)
    return parser


def configure(command: Command, parser: argparse.ArgumentParser) -> None:
    """Add the options of a command to a parser."""
    getattr(_load(command.module), f"configure_{command.function}")(parser)


def _load(module: str) -> ModuleType:
    return importlib.import_module(f"tui_workbench.cli.{module}")


def _run_command(command: Command, rest: Sequence[str]) -> int:
    progress.listen(shared().show)
    parsed = parse(command, rest)
    gc.enable()  # disabled by `__main__`
    code: int = getattr(_load(command.module), f"run_{command.function}")(parsed)
    return code


def _unknown_verb(arguments: Sequence[str]) -> int:
    commands = [command for command in COMMANDS if command.words[0] == arguments[0]]
    if len(arguments) == 1 or arguments[-1] in ("-h", "--help"):
        sys.stdout.write(_overview(commands))
        return 0 if len(arguments) > 1 else UsageError.exit_code
    verbs = ", ".join(" ".join(command.words[1:]) for command in commands)
    near = _nearest(arguments)
    raise UsageError(
        f"unknown command '{' '.join(arguments[:2])}'",
        remedy=near or f"Use one of: {verbs}.",
    )


def _nearest(words: Sequence[str]) -> str:
    """Return a sentence that suggests the most similar command; "" if none is similar."""
    from difflib import get_close_matches

    nouns = [words[0]] if words[0] in NOUNS else get_close_matches(words[0], NOUNS, 1, 0.75)
    if not nouns:
        return ""
    verbs = [" ".join(command.words[1:]) for command in COMMANDS if command.words[0] == nouns[0]]
    for size in (2, 1):
        near = get_close_matches(" ".join(words[1 : size + 1]), [verb for verb in verbs if verb], 1, 0.75)
        if near:
            return f"Did you mean `workbench-tui {nouns[0]} {near[0]}`?"
    return f"Did you mean `workbench-tui {nouns[0]}`?" if nouns[0] != words[0] else ""


def _overview(commands: Sequence[Command]) -> str:
    width = max(len(command.name) for command in commands)
    return "".join(f"  {command.name:{width}}  {command.help}\n" for command in commands)


def _help() -> str:
    return f"""\
usage: workbench-tui [PROJECT]
       workbench-tui COMMAND [--help] ...

Opens PROJECT in the workbench (default: the current folder, or the nearest
parent that contains aml_config/). Outside of a project, `workbench-tui` shows
recent projects and templates.

commands:
{_overview(COMMANDS)}
Every command has --help. Commands that work on a project have --project DIR;
commands that print data have -o json|table|tsv, --query JMESPATH and, for
screen readers, --plain. `workbench-tui agent-guide` prints instructions for
coding agents.

options:
  --ascii        draw the screens in ASCII
  -h, --help     show this help
  -V, --version  show the version; with --check, ask the source of this
                 installation for a newer version; with -o json, also show
                 the version of the JSON output

exit codes: the exit code of the script for a finished run, 130 for a canceled
run or after Ctrl-C; otherwise 0, 1 for an error on this machine, 2 for wrong
usage, 3 for a configuration problem, 4 if the target is unreachable.
"""


def _without_command(arguments: Sequence[str]) -> int:
    """Print the version or the help, or open the screens."""
    if arguments in (["--version"], ["-V"]):
        sys.stdout.write(f"workbench-tui {tui_workbench.__version__}\n")
        return 0
    if sorted(arguments) in (["--version", "-o", "json"], ["-V", "-o", "json"]):
        # Written without the module `json`, whose import takes longer than the rest of this command.
        sys.stdout.write(f'{{"version": "{tui_workbench.__version__}", "json_schema": {JSON_SCHEMA}}}\n')
        return 0
    if sorted(arguments) in (["--check", "--version"], ["--check", "-V"]):
        checked: int = _load("doctor.version").check_version()
        return checked
    if any(word in ("-h", "--help") for word in arguments):
        sys.stdout.write(_help())
        return 0
    names = [word for word in arguments if not word.startswith("-")]
    unknown = [word for word in arguments if word.startswith("-") and word != "--ascii"]
    # The arguments may be a mistyped command with options.
    is_first = bool(names) and (arguments[0] == names[0] or not unknown)
    if is_first and not os.path.isdir(names[0]) and os.sep not in names[0]:
        near = _nearest(names)
        raise UsageError(
            f"no folder or command named {names[0]!r}",
            remedy=near or "Give an existing folder or a command from `workbench-tui --help`.",
        )
    if unknown:
        raise UsageError(f"unknown option {unknown[0]}", remedy="`workbench-tui --help` lists the options.")
    if len(names) > 1:
        raise UsageError(
            f"expected one project folder, not {len(names)}",
            remedy="Give one folder. Quote a path that contains spaces.",
        )
    # Textual reads from stdin and draws on stderr.
    streams = {"stdin": sys.stdin, "stdout": sys.stdout, "stderr": sys.stderr}
    redirected = next((name for name, stream in streams.items() if not stream.isatty()), "")
    if redirected and "TEXTUAL_DRIVER" not in os.environ:
        raise UsageError(
            f"{redirected} is not a terminal",
            remedy="Open the screens in a terminal, without redirections. `workbench-tui --help` lists commands that "
            "work without one.",
        )
    start = importlib.import_module("tui_workbench.ui.start")
    code: int = start.run(names[0] if names else "", ascii_only="--ascii" in arguments)
    return code
