"""`completion SHELL`: print completion scripts, and the values that they request.

The scripts are generated from the parsers of all commands, so they contain every option. Values are printed one per
line. Names with characters that are special in a shell, such as a space or a dollar sign, are omitted.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from argparse import Action
from collections.abc import Callable, Iterable
from typing import Any

from tui_workbench.cli import COMMANDS, configure
from tui_workbench.cli.shared.parser import PROJECT, Parser, option, options
from tui_workbench.config.schema.fields import KINDS
from tui_workbench.core.directories import theme_directories
from tui_workbench.core.errors import UsageError, WorkbenchError
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.projects.project import Project
from tui_workbench.projects.templates import list_templates
from tui_workbench.runs.history import History
from tui_workbench.runs.index.index import RunIndex
from tui_workbench.runs.index.table import RunQuery

SHELLS = ("bash", "zsh", "fish", "tcsh")

MOST_RUNS = 50
"""Maximum number of runs, newest first, that are offered as completions."""

_HARMLESS = "[A-Za-z0-9_%+./@][A-Za-z0-9_%+=:,./@-]*"

_FILES = frozenset(("private_key_file", "public_key_file", "new_file", "source", "destination", "link_file", "list"))
_FOLDERS = frozenset(("project", "path", "directory", "folder"))
_VALUES = {
    "run_configuration": "configurations",
    "target": "targets",
    "run": "runs",
    "runs": "runs",
    "id": "runs",
    "group": "sweeps",
    "template": "templates",
    "theme": "themes",
    "key": "fields",
    "file": "files",
    "files": "files",
}
"""Kinds of values by the name of an argument, for every command."""

_NAMES: dict[tuple[str, ...], str] = {
    ("computetarget", "check"): "targets",
    ("computetarget", "prepare"): "targets",
    ("computetarget", "login"): "targets",
    ("computetarget", "disconnect"): "targets",
    ("computetarget", "detach"): "targets",
    ("config", "gpu-ready"): "targets",
    ("runconfiguration", "delete"): "configurations",
}
"""Kinds of values of the argument NAME, by command."""


def values(kind: str, project: str) -> list[str]:
    """Return the values of a kind in a project; an empty list if they cannot be read."""
    try:
        return list(SOURCES[kind](project))
    except (OSError, WorkbenchError):
        return []


def _files(project: str, suffix: str = "") -> Iterable[str]:
    names = sorted(os.listdir(Project.find(project).config_directory))
    return [name.removesuffix(suffix) for name in names if name.endswith(suffix)]


def _runs(project: str) -> Iterable[str]:
    newest = [row.run for row in History(Project.find(project)).page(RunQuery(), 0, MOST_RUNS).rows]
    return [*(str(run.run_number) for run in newest), *(run.run_id for run in newest)]


def _sweeps(project: str) -> Iterable[str]:
    with RunIndex(Project.find(project)) as index:
        return [group.value for group in index.groups(RunQuery(group="sweep")) if group.value]


def _themes(_: str) -> Iterable[str]:
    folders = [folder for folder in theme_directories() if os.path.isdir(folder)]
    names = {name for folder in folders for name in os.listdir(folder)}
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


SOURCES: dict[str, Callable[[str], Iterable[str]]] = {
    "configurations": lambda project: _files(project, ".runconfig"),
    "targets": lambda project: _files(project, ".compute"),
    "files": _files,
    "runs": _runs,
    "sweeps": _sweeps,
    "templates": lambda _: (template.name for template in list_templates()),
    "themes": _themes,
    "fields": lambda _: sorted({field.path[0] for kind in KINDS for field in kind.fields}),
}

configure_completion = options(
    option("shell", metavar="SHELL", nargs="?", choices=SHELLS, help=", ".join(SHELLS)),
    option(
        "--values",
        metavar="KIND",
        choices=sorted(SOURCES),
        help="print the values of this kind, for the completion scripts",
    ),
    PROJECT,
    epilog="""\
Save the script in an existing folder, then open a new shell:
  bash  workbench-tui completion bash > ~/.local/share/bash-completion/completions/workbench-tui
  zsh   workbench-tui completion zsh > DIR/_workbench-tui      (DIR is a folder in $fpath)
  fish  workbench-tui completion fish > ~/.config/fish/completions/workbench-tui.fish
  tcsh  workbench-tui completion tcsh > ~/.workbench-tui.tcsh  (and in ~/.tcshrc: source ~/.workbench-tui.tcsh)""",
)


def run_completion(arguments: argparse.Namespace) -> int:
    if bool(arguments.shell) == bool(arguments.values):
        raise UsageError(
            "expected either a shell or --values", remedy=f"Give one shell ({', '.join(SHELLS)}), or `--values KIND`."
        )
    if arguments.values:
        candidates = values(arguments.values, arguments.project)
        sys.stdout.write("".join(f"{value}\n" for value in candidates if re.fullmatch(_HARMLESS, value)))
    else:
        sys.stdout.write(script(arguments.shell))
    return 0


def script(shell: str) -> str:
    """Return the completion script of a shell."""
    import shtab

    text: str = shtab.complete(whole_parser(), shell=shell, preamble=_preamble(shell))
    if shell == "bash":
        # The first word can be a project folder instead of a command.
        text += "\ncomplete -o bashdefault -o default -F _shtab_workbench_tui workbench-tui\n"
    return text


def whole_parser() -> argparse.ArgumentParser:
    """Return a parser of all commands, with a completion for each argument."""
    root = Parser("workbench-tui", "the GPU training workbench in a terminal")
    branches: dict[tuple[str, ...], Any] = {(): root.add_subparsers()}
    for command in COMMANDS:
        for size in range(1, len(command.words)):
            words = command.words[:size]
            if words not in branches:
                about = ", ".join(other.words[size] for other in COMMANDS if other.words[:size] == words)
                branch = branches[words[:-1]].add_parser(words[-1], help=about, description=about)
                branches[words] = branch.add_subparsers()
        parser = branches[command.words[:-1]].add_parser(command.words[-1], help=command.help, description=command.help)
        configure(command, parser)
        # shtab reads the attribute `complete` of each action; argparse has no public list of the actions.
        for action in parser._actions:
            completions = _completions(command.words, action)
            if completions is not None:
                action.complete = completions
    return root


def _completions(words: tuple[str, ...], action: Action) -> Any:
    """Return the completions of an argument in the format of shtab; None if shtab needs none."""
    import shtab

    name = action.dest.removeprefix("old_")
    if action.nargs == 0 or action.choices:
        return None
    if name in _FOLDERS:
        return shtab.DIRECTORY
    if name in ("script", "other_script") and words != ("shell",):
        return shtab.glob("*.py", "*.ipynb", "*.sh")
    if name in _FILES or name in ("script", "arguments") or words == ("theme", "check"):
        return shtab.FILE
    kind = _NAMES.get(words) if name == "name" else _VALUES.get(name)
    if kind is None:
        return None
    return {
        "bash": f"_workbench_tui_{kind}",
        "zsh": f"_workbench_tui_{kind}",
        "fish": f"(workbench-tui completion --values {kind} 2>/dev/null)",
        "tcsh": f"`workbench-tui completion --values {kind}`",
    }


_BASH = shell_script("cli/scripts/complete.bash")
_ZSH = shell_script("cli/scripts/complete.zsh")


def _preamble(shell: str) -> str:
    """Return the shell functions that request values; "" if the script of the shell calls the program directly."""
    text, words = {"bash": (_BASH, '"$1"; '), "zsh": (_ZSH, '"$@" ')}.get(shell, ("", ""))
    kinds = SOURCES if text else ()
    return text + "".join(f"_workbench_tui_{kind}() {{ _workbench_tui_values {kind} {words}}}\n" for kind in kinds)
