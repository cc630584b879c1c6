"""The command line, in the original's grammar: a noun, a verb, options. Only the command that was called is imported.

Exit codes: a finished run ends with its script's own code, 130 when it was canceled or the wait for it was
interrupted; otherwise 0, or 1 for a failure of this machine, 2 for wrong use, 3 for a configuration problem, 4 when
the target cannot be reached.
"""

from __future__ import annotations

import errno
import os
import sys

import tui_workbench
from tui_workbench.errors import StorageError, UsageError, WorkbenchError
from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from typing import Any

    from tui_workbench.cli.parser import Parser
    from tui_workbench.cli.quick import Parsed

INTERRUPTED = 130

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class Command(NamedTuple):
    """One command: its words, the module that has `configure(parser)` and `run(arguments)` for it, and its help line.

    The names of the two functions are these with the last word appended: `configure_submit`, `run_submit`.
    """

    words: tuple[str, ...]
    module: str
    help: str


COMMANDS = (
    Command(("experiment", "submit"), "experiment", "run a script on a compute target and follow it"),
    Command(("experiment", "rerun"), "experiment", "run the snapshot of a run again, as it was or with changes"),
    Command(("experiment", "sweep"), "sweep", "run a script over many values of its arguments"),
    Command(("experiment", "status"), "experiment", "what a run is doing"),
    Command(("experiment", "cancel"), "experiment", "end a run and wait until nothing of it is left"),
    Command(("experiment", "prepare"), "maintenance", "make the environment of a run configuration beforehand"),
    Command(("experiment", "clean"), "maintenance", "remove what runs have left on their targets"),
    Command(("logs",), "logs", "print or follow what a run wrote"),
    Command(("doctor",), "doctor", "what of this machine the workbench stands on, and what is missing"),
    Command(("completion",), "completion", "the script that lets a shell complete these commands"),
    Command(("serve",), "serve", "the screens in a browser, for this machine and through ssh -L"),
    Command(("theme", "list"), "theme", "the themes of the screens"),
    Command(("theme", "check"), "theme", "whether a theme file is right, and what in it is hard to read"),
    Command(("theme", "use"), "theme", "start the screens with a theme from now on"),
    Command(("keys",), "keys", "every command of the screens with its keys, and whether keys.yaml is right"),
    Command(("status",), "status", "what runs, in a line: for the status line of tmux or of a prompt"),
    Command(("trace",), "trace", "the calls of ssh, docker, git and other programs that were made"),
    Command(("shell",), "shell", "a shell in the project, with the target's Python and the `az ml` commands"),
    Command(("history", "list"), "history", "every run of the project, newest first"),
    Command(("history", "last"), "history", "the newest run"),
    Command(("history", "info"), "history", "one run, or one of its attachments"),
    Command(("history", "compare"), "history", "what differs between runs"),
    Command(("history", "download"), "artifacts", "copy what a run left into a folder"),
    Command(("history", "promote"), "artifacts", "make an artifact of a run a version of an asset"),
    Command(("history", "tag"), "annotating", "give a run tags, or take some away"),
    Command(("history", "note"), "annotating", "give a run a note"),
    Command(("history", "archive"), "annotating", "leave a run out of lists; nothing of it is removed"),
    Command(("history", "pin"), "annotating", "keep a run at the head of the table of runs"),
    Command(("history", "export"), "artifacts", "write runs as an MLflow file store or as CSV"),
    Command(("history", "import"), "artifacts", "take the runs of an MLflow file store in"),
    Command(("history", "sync"), "maintenance", "fetch the runs of this project that a target knows"),
    Command(("asset", "list"), "asset", "the promoted artifacts of the project"),
    Command(("asset", "download"), "asset", "copy the content of an asset into a folder"),
    Command(("computetarget", "list"), "computetarget", "the compute targets of the project"),
    Command(("computetarget", "attach"), "attach", "make a machine or a Docker engine a compute target"),
    Command(("computetarget", "check"), "targetcheck", "whether a compute target can be used, and what mends it"),
    Command(("computetarget", "login"), "attach", "give a password or passphrase again, and keep it"),
    Command(("computetarget", "disconnect"), "attach", "end the SSH connection; runs go on"),
    Command(("computetarget", "detach"), "attach", "take a compute target and its secrets away"),
    Command(("gpu", "list"), "gpu_monitor", "the GPUs of all targets: what they do, and whose they are"),
    Command(("gpu", "top"), "gpu_monitor", "the processes on the GPUs of all targets, and whose they are"),
    Command(("gpu", "check"), "gpu", "whether runs on a target would compute on its GPUs, and what mends it"),
    Command(("runconfiguration", "list"), "runconfiguration", "the run configurations of the project"),
    Command(("runconfiguration", "create"), "runconfiguration", "make a run configuration for a compute target"),
    Command(("runconfiguration", "delete"), "runconfiguration", "put a run configuration into the trash"),
    Command(("config", "check"), "config", "what is wrong or unwise in configuration files"),
    Command(("config", "get"), "config", "one value of a configuration file"),
    Command(("config", "set"), "config", "change one value and nothing else"),
    Command(("config", "unset"), "config", "remove one key or list item and nothing else"),
    Command(("config", "fix"), "config", "apply the fixes that a check offers"),
    Command(("config", "gpu-ready"), "config", "make a compute target use its GPU, in one step"),
    Command(("config", "schema"), "config", "the JSON Schema of the configuration files"),
    Command(("project", "create"), "project", "make a project from a template"),
    Command(("project", "add"), "project", "make a project of a folder that is there"),
    Command(("project", "restore"), "project", "make the project what it was when a run was submitted"),
    Command(("project", "sample", "list"), "project", "the templates"),
)
AZ = "az"
"""Before a line of the original's pages: what the `az` in our shells calls."""

NOUNS = frozenset(command.words[0] for command in COMMANDS)


def run(arguments: Sequence[str]) -> int:
    """Run one command, or the screens. Returns the exit code; errors are printed on stderr."""
    try:
        command, rest = find_command(arguments)
        if command is not None:
            code = _run_command(command, rest)
        elif arguments and arguments[0] == AZ:
            code = _az(arguments[1:])
        elif arguments and arguments[0] in NOUNS:
            code = _unknown_verb(arguments)
        else:
            code = _open_screens(arguments)
        sys.stdout.flush()
    except WorkbenchError as error:
        report(error)
        return error.exit_code
    except BrokenPipeError:
        # Who read our output has gone (`| head`); the interpreter must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _az(arguments: Sequence[str]) -> int:
    from tui_workbench.cli.az import main

    return main(arguments)


def report(error: WorkbenchError) -> None:
    """Print an error on stderr, in one line."""
    from tui_workbench.cli.terminal import visible

    sys.stdout.flush()
    _complain(visible(str(error)))


def report_system_error(error: OSError) -> int:
    """Print on stderr, in one line, what nobody closer to it could say better. Returns the exit code.

    What reaches this point is as a rule stdout itself, on a full disk or of a terminal that is gone.
    """
    from tui_workbench.cli.terminal import visible

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
        pass  # stderr is full or gone as well: the exit code is all that is left to say it with


def find_command(arguments: Sequence[str]) -> tuple[Command | None, Sequence[str]]:
    """The command whose words the arguments begin with, and the rest of them."""
    for command in COMMANDS:
        size = len(command.words)
        if tuple(arguments[:size]) == command.words:
            return command, arguments[size:]
    return None, arguments


def parse(command: Command, words: Sequence[str]) -> Namespace | Parsed:
    """The words of a command's line parsed. Raises UsageError; exits when they ask for help."""
    from tui_workbench.cli.quick import NotPlain, QuickParser

    quick = QuickParser()
    try:
        configure(command, quick)
        parsed: Namespace | Parsed = quick.parse(words)
    except NotPlain:
        parsed = build_parser(command).parse(words)
    if getattr(parsed, "plain", False):
        _be_plain(parsed)
    return parsed


def _be_plain(parsed: Namespace | Parsed) -> None:
    """Make `--plain` an output like those of `-o`, and have no bars drawn."""
    from tui_workbench.cli.progress_bar import shared

    shared().be_plain()
    if hasattr(parsed, "output"):
        vars(parsed)["output"] = "plain"


def build_parser(command: Command) -> Parser:
    """The whole argument parser of one command."""
    from tui_workbench.cli.parser import Parser

    parser = Parser(f"workbench-tui {' '.join(command.words)}", command.help)
    configure(command, parser)
    return parser


def configure(command: Command, parser: Any) -> None:
    """Declare a command's options to a parser."""
    getattr(_module(command), f"configure_{_function(command)}")(parser)


def _progress_listener() -> object:
    from tui_workbench.cli.progress_bar import shared

    return shared().show


def _run_command(command: Command, rest: Sequence[str]) -> int:
    tui_workbench.progress_bar = _progress_listener
    code: int = getattr(_module(command), f"run_{_function(command)}")(parse(command, rest))
    return code


def _module(command: Command) -> object:
    # Not importlib.import_module: importlib itself is not loaded yet.
    return getattr(__import__(f"tui_workbench.cli.{command.module}").cli, command.module)


def _function(command: Command) -> str:
    return command.words[-1].replace("-", "_")


def _unknown_verb(arguments: Sequence[str]) -> int:
    known = [command for command in COMMANDS if command.words[0] == arguments[0]]
    if len(arguments) == 1 or arguments[-1] in ("-h", "--help"):
        sys.stdout.write(_overview(known))
        return 0 if len(arguments) > 1 else UsageError.exit_code
    verbs = ", ".join(" ".join(command.words[1:]) for command in known)
    raise UsageError(
        f"there is no command `{' '.join(arguments[:2])}`", remedy=f"After `{arguments[0]}` comes one of: {verbs}."
    )


def _overview(commands: Sequence[Command]) -> str:
    width = max(len(" ".join(command.words)) for command in commands)
    return "".join(f"  {' '.join(command.words):{width}}  {command.help}\n" for command in commands)


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


def _open_screens(arguments: Sequence[str]) -> int:
    # Looked at by hand: this is the way to the first frame, and there is little to parse.
    if any(word in ("-h", "--help") for word in arguments):
        sys.stdout.write(_help())
        return 0
    names = [word for word in arguments if not word.startswith("-")]
    unknown = [word for word in arguments if word.startswith("-") and word != "--ascii"]
    if unknown or len(names) > 1:
        what = f"unknown option {unknown[0]}" if unknown else f"one project at a time, and {len(names)} were named"
        raise UsageError(what, remedy="See `workbench-tui --help`.")
    if names and not os.path.isdir(names[0]) and os.sep not in names[0]:
        raise UsageError(f"there is no folder and no command {names[0]!r}", remedy="See `workbench-tui --help`.")
    in_browser = "TEXTUAL_DRIVER" in os.environ
    if not in_browser and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "the screens need a terminal, and this is none", remedy="See `workbench-tui --help` for the commands."
        )
    from tui_workbench.project import Project

    project = Project.find(names[0] if names else ".")
    from tui_workbench import ui

    return ui.run(project.root, ascii_only="--ascii" in arguments)
