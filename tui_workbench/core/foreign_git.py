"""Reading git repositories that somebody else may have prepared, without executing anything that they name.

A repository's own configuration can name programs: filters, monitors of the file system, hooks, and the remote from
which git fetches objects that are missing. Looking at a project must start none of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from tui_workbench.core import trace
from tui_workbench.core.directories import derived_directory
from tui_workbench.core.processes import clean_environment, run

LIMIT_SECONDS = 20.0

_FILTER_KEYS = ("clean", "smudge", "process")
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"


def without_fetching(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with no variable of git's own, no configuration of the user, and no transport allowed."""
    plain = {name: value for name, value in clean_environment(environment).items() if not name.startswith("GIT_")}
    return {**plain, "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}


def reading_environment(state_directory: str, objects: Sequence[str]) -> dict[str, str]:
    """The environment in which git reads objects in the folders `objects`, and nothing else of their repositories.

    Their configuration, hooks, references and attributes count for nothing: git works in an empty repository of this
    user's in the cache of `state_directory`. Raises OSError when there is no place for it.
    """
    folder = derived_directory(state_directory)
    if not folder:
        raise OSError(2, "there is no cache directory for it", state_directory)
    shadow = os.path.join(folder, "reader.git")
    for name in ("objects", "refs"):
        os.makedirs(os.path.join(shadow, name), mode=0o700, exist_ok=True)
    for name, text in (("config", _CONFIG), ("HEAD", "ref: refs/heads/none\n")):
        path = os.path.join(shadow, name)
        if not os.path.exists(path):
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
    return {
        **without_fetching(os.environ),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_DIR": shadow,
        "GIT_OBJECT_DIRECTORY": objects[0],
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": path_list(objects[1:]),
        "GIT_NO_REPLACE_OBJECTS": "1",
        "LC_ALL": "C",
    }


def path_list(paths: Sequence[str]) -> str:
    """The paths as one of git's variables holds them; quoted, as a path may hold the separator."""
    quoted = (path.replace("\\", "\\\\").replace('"', '\\"') for path in paths)
    return os.pathsep.join(f'"{path}"' for path in quoted)


def status_environment(folder: str) -> dict[str, str]:
    """The environment in which git executes nothing that the configuration of the repository at `folder` names.

    Raises OSError and subprocess.SubprocessError when that configuration cannot be read.
    """
    settings = {"core.fsmonitor": "false", "core.hooksPath": os.devnull}
    for name in _filters_of(folder):
        settings |= {f"filter.{name}.{key}": "" for key in _FILTER_KEYS} | {f"filter.{name}.required": "false"}
    environment = {**without_fetching(os.environ), "GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        environment |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return environment


def _filters_of(folder: str) -> set[str]:
    """The names of the filters that the repository's own configuration, with what it includes, defines."""
    names: set[str] = set()
    for scope in ("--local", "--worktree"):
        command = ["git", "config", "--includes", scope, "--null", "--name-only", "--get-regexp", r"^filter\."]
        environment = without_fetching(os.environ)
        done = run(command, kind=trace.GIT, folder=folder, environment=environment, timeout=LIMIT_SECONDS)
        names |= {key.removeprefix("filter.").rpartition(".")[0] for key in os.fsdecode(done.stdout).split("\0")}
    return names - {""}
