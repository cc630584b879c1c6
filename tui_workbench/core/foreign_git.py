"""Read untrusted git repositories without executing anything that they configure.

The configuration of a repository can name programs: filters, file system monitors, hooks, and a remote from which git
fetches missing objects. Opening a project must start none of them.
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
    """Return the environment without git's variables, and with all transports disabled."""
    plain = {name: value for name, value in clean_environment(environment).items() if not name.startswith("GIT_")}
    return {**plain, "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}


def reading_environment(state_directory: str, objects: Sequence[str]) -> dict[str, str]:
    """Return the environment in which git only reads objects in the folders `objects`.

    The configuration, hooks, references and attributes of their repositories are ignored: git works in an empty
    repository in the cache of `state_directory`. Raises OSError.
    """
    folder = derived_directory(state_directory)
    if not folder:
        raise OSError(2, "no cache directory is available", state_directory)
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
    """Format paths for a variable of git, quoted because a path may contain the separator."""
    quoted = (path.replace("\\", "\\\\").replace('"', '\\"') for path in paths)
    return os.pathsep.join(f'"{path}"' for path in quoted)


def status_environment(folder: str) -> dict[str, str]:
    """Return the environment in which git executes nothing that the repository at `folder` configures.

    Raises OSError and subprocess.SubprocessError if its configuration cannot be read.
    """
    settings = {"core.fsmonitor": "false", "core.hooksPath": os.devnull}
    for name in _filters_of(folder):
        settings |= {f"filter.{name}.{key}": "" for key in _FILTER_KEYS} | {f"filter.{name}.required": "false"}
    environment = {**without_fetching(os.environ), "GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        environment |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return environment


def _filters_of(folder: str) -> set[str]:
    """Return the names of the filters in the configuration of a repository, including its includes."""
    names: set[str] = set()
    for scope in ("--local", "--worktree"):
        command = ["git", "config", "--includes", scope, "--null", "--name-only", "--get-regexp", r"^filter\."]
        environment = without_fetching(os.environ)
        done = run(command, kind=trace.GIT, folder=folder, environment=environment, timeout=LIMIT_SECONDS)
        names |= {key.removeprefix("filter.").rpartition(".")[0] for key in os.fsdecode(done.stdout).split("\0")}
    return names - {""}
