"""The command line: a noun, a verb and options, as in the original. Only the module of the given command is imported.

Exit codes: a finished run ends with its script's own code, 130 when it was canceled or the wait for it was
interrupted; otherwise 0, or 1 for a failure of this machine, 2 for wrong use, 3 for a configuration problem, 4 when
the target cannot be reached.
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

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class Command(NamedTuple):
    """A command: its words, its module in this package, and its help line.

    The module has the functions `configure_WORD(parser)` and `run_WORD(arguments)`, where WORD is the last word.
    """

    name: str
    module: str
    help: str

    @property
    def words(self) -> tuple[str, ...]:
        """The name word by word."""
        return tuple(self.name.split())

    @property
    def function(self) -> str:
        """What the names of its two functions end with."""
        return self.words[-1].replace("-", "_")


COMMANDS = (
    Command("experiment submit", "experiment.submit", "run a script on a compute target and follow it"),
    Command("experiment rerun", "experiment.rerun", "run the snapshot of a run again, as it was or with changes"),
    Command("experiment sweep", "experiment.sweep", "run a script over many values of its arguments"),
    Command("experiment status", "experiment.status", "what a run is doing"),
    Command("experiment cancel", "experiment.cancel", "end a run and wait until nothing of it is left"),
    Command(
        "experiment resume",
        "experiment.maintenance",
        "see active runs through to their end, or take over an imported run",
    ),
    Command("experiment prepare", "experiment.maintenance", "make the environment of a run configuration beforehand"),
    Command("experiment collect", "experiment.maintenance", "fetch files of ended runs that are not all here"),
    Command("experiment clean", "experiment.maintenance", "remove what runs have left on their targets"),
    Command("logs", "logs", "print or follow what a run wrote"),
    Command("doctor", "doctor.doctor", "what of this machine the workbench stands on, and what is missing"),
    Command("completion", "completion", "the script that lets a shell complete these commands"),
    Command("serve", "serve", "the screens in a browser, for this machine and through ssh -L"),
    Command("theme list", "theme", "the themes of the screens"),
    Command("theme check", "theme", "whether a theme file is right, and what in it is hard to read"),
    Command("theme use", "theme", "start the screens with a theme from now on"),
    Command("keys", "keys", "every command of the screens with its keys, and whether keys.yaml is right"),
    Command("status", "status", "what runs, in a line: for the status line of tmux or of a prompt"),
    Command("trace", "trace", "the calls of ssh, docker, git and other programs that were made"),
    Command("shell", "shell", "a shell in the project, with the target's Python and the `az ml` commands"),
    Command("history list", "history.history", "every run of the project, newest first"),
    Command("history last", "history.history", "the newest run"),
    Command("history info", "history.history", "one run, or one of its attachments"),
    Command("history compare", "history.compare", "what differs between runs"),
    Command("history download", "history.artifacts", "copy what a run left into a folder"),
    Command("history promote", "history.artifacts", "make an artifact of a run a version of an asset"),
    Command("history tag", "history.history", "give a run tags, or take some away"),
    Command("history note", "history.history", "give a run a note"),
    Command("history archive", "history.history", "leave a run out of lists; nothing of it is removed"),
    Command("history pin", "history.history", "keep a run at the head of the table of runs"),
    Command("history export", "history.artifacts", "write runs as an MLflow file store or as CSV"),
    Command("history import", "history.artifacts", "take the runs of an MLflow file store in"),
    Command("history sync", "experiment.maintenance", "fetch the runs of this project that a target knows"),
    Command("asset list", "asset", "the promoted artifacts of the project"),
    Command("asset download", "asset", "copy the content of an asset into a folder"),
    Command("computetarget list", "computetarget.listing", "the compute targets of the project"),
    Command("computetarget attach", "computetarget.attach", "make a machine or a Docker engine a compute target"),
    Command("computetarget check", "computetarget.check", "whether a compute target can be used, and what mends it"),
    Command("computetarget login", "computetarget.attach", "give a password or passphrase again, and keep it"),
    Command("computetarget disconnect", "computetarget.attach", "end the SSH connection; runs go on"),
    Command("computetarget detach", "computetarget.attach", "take a compute target and its secrets away"),
    Command("gpu list", "gpu", "the GPUs of all targets: what they do, and whose they are"),
    Command("gpu top", "gpu", "the processes on the GPUs of all targets, and whose they are"),
    Command("gpu check", "gpu", "whether runs on a target would compute on its GPUs, and what mends it"),
    Command("runconfiguration list", "runconfiguration", "the run configurations of the project"),
    Command("runconfiguration create", "runconfiguration", "make a run configuration for a compute target"),
    Command("runconfiguration delete", "runconfiguration", "put a run configuration into the trash"),
    Command("config check", "config", "what is wrong or unwise in configuration files"),
    Command("config get", "config", "one value of a configuration file"),
    Command("config set", "config", "change one value and nothing else"),
    Command("config unset", "config", "remove one key or list item and nothing else"),
    Command("config fix", "config", "apply the fixes that a check offers"),
    Command("config gpu-ready", "config_gpu_ready", "make a compute target use its GPU, in one step"),
    Command("config schema", "config", "the JSON Schema of the configuration files"),
    Command("project create", "project", "make a project from a template"),
    Command("project add", "project", "make a project of a folder that is there"),
    Command("project restore", "project", "make the project what it was when a run was submitted"),
    Command("project sample list", "project", "the templates"),
)
AZ = "az"
"""The word before a line of the original's pages: our shells have an `az` that calls the workbench with it."""

NOUNS = frozenset(command.words[0] for command in COMMANDS)


def run(arguments: Sequence[str]) -> int:
    """Run one command, or the screens. Returns the exit code; errors are printed on stderr."""
    try:
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
        _complain("\n".join(map(visible, error.lines)))
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); the interpreter must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def report_system_error(error: OSError) -> int:
    """Print an error that no command has handled on stderr, in one line. Returns the exit code.

    As a rule stdout itself has failed: the disk is full, or the terminal is gone.
    """
    said = StorageError(
        f"{'' if error.filename else 'cannot write the output: '}{(error.strerror or str(error)).lower()}",
        remedy="Free space, or send the output elsewhere." if error.errno in _NO_SPACE else "",
        file=os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else "",
    )
    _complain(visible(str(said)))
    return said.exit_code


def _complain(line: str) -> None:
    try:
        sys.stderr.write(f"workbench-tui: {line}\n")
        sys.stderr.flush()
    except OSError:
        pass  # stderr is full or gone as well: only the exit code is left


def find_command(arguments: Sequence[str]) -> tuple[Command | None, Sequence[str]]:
    """The command whose words the arguments begin with, and the rest of them."""
    for command in COMMANDS:
        size = len(command.words)
        if tuple(arguments[:size]) == command.words:
            return command, arguments[size:]
    return None, arguments


def parse(command: Command, words: Sequence[str]) -> argparse.Namespace:
    """The words of a command's line parsed. Raises UsageError; exits when they ask for help."""
    parsed = build_parser(command).parse(words)
    if getattr(parsed, "plain", False):
        # `--plain` is an output like those of `-o`, and no bars are drawn.
        shared().be_plain()
        if hasattr(parsed, "output"):
            parsed.output = "plain"
    return parsed


def build_parser(command: Command) -> Parser:
    """The argument parser of one command."""
    parser = Parser(f"workbench-tui {command.name}", command.help)
    configure(command, parser)
    return parser


def configure(command: Command, parser: argparse.ArgumentParser) -> None:
    """Declare a command's options to a parser."""
    getattr(_load(command.module), f"configure_{command.function}")(parser)


def _load(module: str) -> ModuleType:
    """A module of this package. This is the only place of the package that imports one of its modules late."""
    return importlib.import_module(f"tui_workbench.cli.{module}")


def _run_command(command: Command, rest: Sequence[str]) -> int:
    progress.listen(shared().show)
    parsed = parse(command, rest)
    gc.enable()  # `__main__` has turned it off
    code: int = getattr(_load(command.module), f"run_{command.function}")(parsed)
    return code


def _unknown_verb(arguments: Sequence[str]) -> int:
    known = [command for command in COMMANDS if command.words[0] == arguments[0]]
    if len(arguments) == 1 or arguments[-1] in ("-h", "--help"):
        sys.stdout.write(_overview(known))
        return 0 if len(arguments) > 1 else UsageError.exit_code
    verbs = ", ".join(" ".join(command.words[1:]) for command in known)
    near = _nearest(arguments)
    raise UsageError(
        f"there is no command `{' '.join(arguments[:2])}`",
        remedy=near or f"After `{arguments[0]}` comes one of: {verbs}.",
    )


def _nearest(words: Sequence[str]) -> str:
    """A sentence that suggests the command which the first words were meant to be, "" when none is near."""
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

Opens the project folder in the workbench (default: here, or the nearest folder above that holds aml_config/).

commands:
{_overview(COMMANDS)}
Every command has --help and --project DIR; those with a result have -o json|table|tsv,
--query JMESPATH and, for screen readers, --plain.

options:
  --ascii        draw the screens in ASCII
  -h, --help     this text
  -V, --version  the version

exit codes: the script's own of a finished run, 130 for a canceled one; else 0, 1 when something failed on this
machine, 2 for wrong use, 3 for a configuration problem, 4 when the target cannot be reached.
"""


def _without_command(arguments: Sequence[str]) -> int:
    """Print the version or the help, or open the screens."""
    if arguments in (["--version"], ["-V"]):
        sys.stdout.write(f"workbench-tui {tui_workbench.__version__}\n")
        return 0
    if any(word in ("-h", "--help") for word in arguments):
        sys.stdout.write(_help())
        return 0
    names = [word for word in arguments if not word.startswith("-")]
    unknown = [word for word in arguments if word.startswith("-") and word != "--ascii"]
    # A mistyped command may have options of its own behind it.
    is_first = bool(names) and (arguments[0] == names[0] or not unknown)
    if is_first and not os.path.isdir(names[0]) and os.sep not in names[0]:
        near = _nearest(names)
        what = f"there is no folder and no command {names[0]!r}"
        raise UsageError(what, remedy=near or "See `workbench-tui --help`.")
    if unknown or len(names) > 1:
        what = f"unknown option {unknown[0]}" if unknown else f"one project at a time, and {len(names)} were named"
        raise UsageError(what, remedy="See `workbench-tui --help`.")
    if "TEXTUAL_DRIVER" not in os.environ and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "the screens need a terminal, and this is none", remedy="See `workbench-tui --help` for the commands."
        )
    code: int = _load("screens").open_screens(names[0] if names else ".", ascii_only="--ascii" in arguments)
    return code
