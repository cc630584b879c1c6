"""The `az` program of `workbench-tui shell`: translate `az ml` commands of Azure ML Workbench.

Other commands go to the Azure CLI. For an `az ml` command without a counterpart, the error suggests an alternative.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tui_workbench.core.errors import UsageError
from tui_workbench.core.processes import search_folders
from tui_workbench.runs.shell import commands_folder

NOT_FOUND = 127


class Line(NamedTuple):
    """The translation of an `az ml` command."""

    renamed: Mapping[str, str] = {}  # options that have another name
    dropped: Mapping[str, bool] = {}  # ignored options; True if the option has a value
    added: tuple[str, ...] = ()  # additional arguments
    names_script: bool = False  # the arguments after the script belong to the script


_CLOUD = dict.fromkeys(
    ("-w", "--workspace", "-a", "--account", "-g", "--resource-group", "-l", "--location", "--vststoken"), True
)
_TARGET = {"-t": True, "--target": True}

LINES: Mapping[tuple[str, ...], Line] = {
    ("experiment", "submit"): Line(dropped={"-o": True, "--output": True}, names_script=True),
    ("experiment", "prepare"): Line(),
    ("experiment", "status"): Line(dropped=_TARGET),
    ("experiment", "cancel"): Line(dropped=_TARGET),
    ("experiment", "clean"): Line(added=("--yes",)),
    ("history", "list"): Line(renamed={"--path": "--project"}),
    ("history", "last"): Line(renamed={"--path": "--project"}),
    ("history", "info"): Line(),
    ("history", "compare"): Line(),
    ("history", "download"): Line(),
    ("history", "promote"): Line(),
    ("asset", "download"): Line(),
    ("computetarget", "attach"): Line(),
    ("computetarget", "list"): Line(added=("--query", "[].name")),
    ("computetarget", "detach"): Line(),
    ("runconfiguration", "create"): Line(),
    ("runconfiguration", "delete"): Line(),
    ("runconfiguration", "list"): Line(added=("--query", "[].name")),
    ("project", "create"): Line(dropped={**_CLOUD, "--force": False, "-r": True, "--repo": True}),
    ("project", "restore"): Line(dropped=_CLOUD),
    ("project", "sample", "list"): Line(),
}

_GONE = "The cloud service of Azure ML Workbench was shut down in January 2019"
REMEDIES: Mapping[str, str] = {
    "account": f"{_GONE}. The workbench needs no account.",
    "workspace": f"{_GONE}. A project is a folder anywhere on this machine.",
    "project update": f"{_GONE}. Use git in the project folder.",
    "project delete": "A project is a folder: remove the folder.",
    "project list": "List the projects that you used last: `workbench-tui project recent`. To find all projects, run "
    "`find ~ -name aml_config`.",
    "experiment diagnostics": "Copy the files of a run: `workbench-tui history download -r ID -d DIR`.",
    "notebook": "Start Jupyter on the project: `workbench-tui notebook`.",
    "datasource": "The workbench has no data sources: read the data files directly in your script.",
    **dict.fromkeys(
        ("env", "model", "manifest", "image", "service"), f"{_GONE}. The workbench does not deploy models."
    ),
}
"""Remedies for unsupported commands of Azure ML Workbench, by the first words of the command."""

_COMMON = {"--debug": False, "--verbose": False}


def translated(words: Sequence[str]) -> list[str]:
    """Translate the arguments of `az ml` to those of `workbench-tui`. Raises UsageError for unsupported commands."""
    for size in (3, 2):
        line = LINES.get(tuple(words[:size]))
        if line is not None:
            return [*words[:size], *_options(line, words[size:])]
    for size in (2, 1):
        if hint := REMEDIES.get(" ".join(words[:size])):
            raise UsageError(f"`az ml {' '.join(words[:size])}` is not supported", remedy=hint)
    names = ", ".join(sorted(" ".join(words) for words in LINES))
    raise UsageError(f"unknown command 'az ml {' '.join(words[:2])}'", remedy=f"Use one of: {names}.")


def _options(line: Line, words: Sequence[str]) -> list[str]:
    translation: list[str] = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        name, equals, value = word.partition("=")
        takes_value = {**_COMMON, **line.dropped}.get(name if equals else word)
        if takes_value is not None:
            index += takes_value and not equals  # skips the value, which is the next word unless it follows `=`
            continue
        if line.names_script and not word.startswith("-"):
            return [*translation, word, *words[index:], *line.added]
        name = line.renamed.get(name, name)
        if name in ("-o", "--output") and (value or "".join(words[index : index + 1])) == "jsonc":
            translation += [name, "json"]
            index += not equals
            continue
        translation.append(f"{name}={value}" if equals else name)
        if line.names_script and not equals and name not in _SWITCHES and index < len(words):
            translation.append(words[index])
            index += 1
    is_given = any(word.partition("=")[0] in line.added[:1] for word in words)
    return translation if is_given else [*translation, *line.added]


_SWITCHES = frozenset(("--wait", "--detach", "--dry-run", "-h", "--help"))
"""Options of `experiment submit` that take no value."""


def main(arguments: Sequence[str], run: Callable[[Sequence[str]], int]) -> int:
    """Pass `az ml` commands to `run`, and other commands to the Azure CLI. Return the exit code."""
    if arguments[:1] != ["ml"]:
        return _real_az(arguments)
    if len(arguments) == 1 or arguments[1] in ("-h", "--help"):
        sys.stdout.write("".join(f"  az ml {' '.join(words)}\n" for words in LINES))
        return 0
    words = translated(arguments[1:])
    if words[:2] == ["project", "create"] and {"-r", "--repo"} & set(arguments):
        sys.stderr.write("az ml: --repo is ignored; the workbench takes snapshots without a repository\n")
    return run(words)


def _real_az(arguments: Sequence[str]) -> int:
    """Replace this process with the first `az` on the PATH outside the folder of `workbench-tui shell`.

    Return exit code 127 if the Azure CLI is not installed.
    """
    folders = search_folders(os.environ.get("PATH", os.defpath))
    others = [folder for folder in folders if os.path.dirname(folder) != commands_folder()]
    path = shutil.which("az", path=os.pathsep.join(others))
    if path is not None:
        os.execv(path, [path, *arguments])
    sys.stderr.write("az: the Azure CLI is not installed; only `az ml` commands work without it\n")
    return NOT_FOUND
