"""`az` as the shells of the workbench have it: `az ml` lines of the original's pages, done by the workbench.

Everything else goes to the real `az`, unchanged. A line is first made one of ours, word by word; what has no
counterpart here is answered in one line that says what takes its place.
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
    """How an `az ml` line becomes one of ours."""

    renamed: Mapping[str, str] = {}  # options by another name
    dropped: Mapping[str, bool] = {}  # options that mean nothing here; True for one with a value
    added: tuple[str, ...] = ()  # words of our own
    names_script: bool = False  # what follows the script is the script's


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

_GONE = "the cloud service behind it was shut down in January 2019"
REMEDIES: Mapping[str, str] = {
    "account": f"{_GONE}; the workbench needs no account",
    "workspace": f"{_GONE}; a project is a folder, wherever it lies",
    "project update": f"{_GONE}; use git in the project folder",
    "project delete": "a project is a folder: remove it",
    "project list": "a project is a folder, wherever it lies",
    "experiment diagnostics": "`workbench-tui history download -r ID -d DIR` copies what a run left",
    "notebook": "start a notebook server in this shell: `jupyter notebook`",
    "datasource": "data sources belonged to the original's own screens; read the files in the script",
    **dict.fromkeys(
        ("env", "model", "manifest", "image", "service"), f"deployment is no part of the workbench, and {_GONE}"
    ),
}
"""What is said of the original's commands that are none here, by their first words."""

_COMMON = {"--debug": False, "--verbose": False}


def translated(words: Sequence[str]) -> list[str]:
    """The words behind `az ml` as words of ours. Raises UsageError for what has no counterpart here."""
    for size in (3, 2):
        line = LINES.get(tuple(words[:size]))
        if line is not None:
            return [*words[:size], *_options(line, words[size:])]
    for size in (2, 1):
        said = REMEDIES.get(" ".join(words[:size]))
        if said:
            raise UsageError(f"`az ml {' '.join(words[:size])}` is none of the workbench's: {said}")
    known = ", ".join(sorted(" ".join(words) for words in LINES))
    raise UsageError(f"there is no `az ml {' '.join(words[:2])}`", remedy=f"After `az ml` comes one of: {known}.")


def _options(line: Line, words: Sequence[str]) -> list[str]:
    made: list[str] = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        name, equals, value = word.partition("=")
        takes_value = {**_COMMON, **line.dropped}.get(name if equals else word)
        if takes_value is not None:
            index += takes_value and not equals
            continue
        if line.names_script and not word.startswith("-"):
            return [*made, word, *words[index:], *line.added]
        name = line.renamed.get(name, name)
        if name in ("-o", "--output") and (value or "".join(words[index : index + 1])) == "jsonc":
            made += [name, "json"]
            index += not equals
            continue
        made.append(f"{name}={value}" if equals else name)
        if line.names_script and not equals and name not in _SWITCHES and index < len(words):
            made.append(words[index])
            index += 1
    is_given = any(word.partition("=")[0] in line.added[:1] for word in words)
    return made if is_given else [*made, *line.added]


_SWITCHES = frozenset(("--wait", "--detach", "--dry-run", "-h", "--help"))
"""Options of `submit` that have no value."""


def main(arguments: Sequence[str], run: Callable[[Sequence[str]], int]) -> int:
    """`az ARGUMENTS`: with `run` when it begins with `ml`, else the real one's. Returns the exit code."""
    if arguments[:1] != ["ml"]:
        return _real_az(arguments)
    if len(arguments) == 1 or arguments[1] in ("-h", "--help"):
        sys.stdout.write("".join(f"  az ml {' '.join(words)}\n" for words in LINES))
        return 0
    words = translated(arguments[1:])
    if words[:2] == ["project", "create"] and {"-r", "--repo"} & set(arguments):
        sys.stderr.write("az ml: --repo is left out: the workbench takes snapshots by itself; use git as you like\n")
    return run(words)


def _real_az(arguments: Sequence[str]) -> int:
    """Become the next `az` on the PATH that is not one of ours."""
    folders = search_folders(os.environ.get("PATH", os.defpath))
    others = [folder for folder in folders if os.path.dirname(folder) != commands_folder()]
    path = shutil.which("az", path=os.pathsep.join(others))
    if path is not None:
        os.execv(path, [path, *arguments])
    sys.stderr.write("az: the Azure CLI is not installed on this machine; only `az ml` lines work without it\n")
    return NOT_FOUND
