"""Run git without executing programs that an untrusted repository configures.

The configuration of a repository can name programs: filters, file system monitors and hooks. It can also name a remote
from which git fetches missing objects. Opening a project must neither start such a program nor fetch. Git therefore
always uses a repository with an own configuration, which `make_repository` creates outside the project, and only reads
or writes the objects, references and files of the project. `repository` reads the user's own repository in this way.
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence

from tui_workbench.core import trace
from tui_workbench.core.directories import derived_directory
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.files import read_below, write_below
from tui_workbench.core.processes import clean_environment, run

LIMIT_SECONDS = 20.0

NO_COMMIT = "ref: refs/heads/none"
"""The content of HEAD in a repository without a commit."""


class GitError(WorkbenchError):
    """Git could not be started, timed out, or exited with an error."""


def run_git(
    *arguments: str,
    environment: dict[str, str],
    folder: str = "",
    input: bytes = b"",
    passed: Sequence[int] = (),
    timeout: float = LIMIT_SECONDS,
    on_written: Callable[[int], object] | None = None,
) -> bytes:
    """Run a git command and return its stdout. The parameters are those of `processes.run`. Raises GitError.

    With `on_written`, there is no time limit.
    """
    try:
        done = run(
            ["git", *arguments], kind=trace.GIT, folder=folder, environment=environment, input=input, passed=passed,
            variables={name: value for name, value in environment.items() if name.startswith("GIT_")},
            timeout=timeout, on_written=on_written,
        )  # fmt: skip
    except OSError as error:
        raise GitError(
            f"cannot run git: {error.strerror}", remedy="Install git, and check that it is on the PATH."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise GitError(
            f"git timed out after {error.timeout:g} s",
            remedy="Check that the disk of the project responds, then try again.",
        ) from error
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().split("\n")
        # Warnings and hints can precede and follow the error.
        fatal = next((line for line in lines if line.startswith("fatal: ")), lines[-1])
        raise GitError(fatal or f"git failed with exit code {done.returncode}")
    return done.stdout


def without_fetching() -> dict[str, str]:
    """Return this process's environment without git's variables, and with all transports disabled."""
    plain = {name: value for name, value in clean_environment(os.environ).items() if not name.startswith("GIT_")}
    return {
        **plain, "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C",
    }  # fmt: skip


def isolated_environment() -> dict[str, str]:
    """Return an environment in which git also ignores the configuration and attributes of the user and the system."""
    return {
        **without_fetching(), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_ATTR_NOSYSTEM": "1",
    }  # fmt: skip


def config_text(settings: Mapping[str, str]) -> bytes:
    """Return a git configuration file with these settings, whose names have the form `section.key`."""
    # Git accepts `extensions`, such as the object format, only with version 1.
    lines = ["[core]", "\trepositoryformatversion = 1"]
    for name, value in settings.items():
        section, _, key = name.partition(".")
        quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines += [f"[{section}]", f'\t{key} = "{quoted}"']
    return os.fsencode("\n".join(lines) + "\n")


def make_repository(folder: str, config: bytes, commit: str = "") -> None:
    """Make `folder` a bare repository without objects, in which HEAD is `commit`. Raises OSError.

    Only missing and different files are written, because other threads and processes may use the repository now.
    """
    for name in ("objects", "refs"):
        os.makedirs(os.path.join(folder, name), mode=0o700, exist_ok=True)
    for name, text in (("config", config), ("HEAD", f"{commit or NO_COMMIT}\n".encode())):
        path = os.path.join(folder, name)
        if not os.path.exists(path) or read_below(folder, name, len(text) + 1) != text:
            write_below(folder, name, text)


def reading_environment(state_directory: str, objects: Sequence[str]) -> dict[str, str]:
    """Return an environment in which git reads only the objects in the folders `objects`.

    Git uses an empty repository in the cache of `state_directory`. The configuration, hooks, references and attributes
    of the repositories that own the objects are therefore ignored. Raises OSError.
    """
    folder = derived_directory(state_directory)
    if not folder:
        raise OSError(errno.ENOENT, "no cache directory is available", state_directory)
    shadow = os.path.join(folder, "reader.git")
    make_repository(shadow, config_text({"core.bare": "true"}))
    return {
        **isolated_environment(),
        "GIT_DIR": shadow,
        "GIT_OBJECT_DIRECTORY": objects[0],
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": path_list(objects[1:]),
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def path_list(paths: Sequence[str]) -> str:
    """Return the paths, joined for a variable of git. They are quoted, because a path may contain the separator."""
    quoted = (path.replace("\\", "\\\\").replace('"', '\\"') for path in paths)
    return os.pathsep.join(f'"{path}"' for path in quoted)
