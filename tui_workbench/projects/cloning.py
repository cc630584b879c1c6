"""Clone git repositories.

No program of a repository is executed: submodules are not cloned, and hooks are not installed. Git runs without a
terminal, so that it cannot ask for a password or about a host key.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping

from tui_workbench.core import trace
from tui_workbench.core.errors import UsageError, WorkbenchError
from tui_workbench.core.masking import mask_text
from tui_workbench.core.processes import clean_environment, run
from tui_workbench.core.progress import Meter, meter
from tui_workbench.projects.new_folder import new_folder

_URL = re.compile(r"(?:https?|ssh|git)://[^-/].*|file:///.*|(?:\w[\w.-]*@)?\w[\w.-]*:(?!:|//).+")
"""URLs, and the form `user@host:path` of ssh. Git would take other texts for options, programs or local paths."""

_OF_REPOSITORY = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)
"""Variables that belong to another repository: those of `git rev-parse --local-env-vars`, without configuration."""

_VARIABLES = {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "https:http:ssh:git:file", "LC_ALL": "C"}
_PROGRESS = re.compile(r"([A-Z]\w+) (\w+): +\d+% \((\d+)/(\d+)\)")  # `Receiving objects:  45% (123/273), 1.2 MiB`
_UNITS = {"content": "files"}  # git-lfs reports `Filtering content`

_REPEATED = (
    "Cloning into ",
    "fatal: Could not read from remote repository",
    "Please make sure you have the correct",
    "and the repository exists",
)
"""Beginnings of the lines in which git gives no reason for a failure."""


class Stopped(Exception):
    """The exception for a clone that the user has stopped."""


def clone_project(url: str, folder: str = "", stopped: Callable[[], bool] = lambda: False) -> str:
    """Clone a repository with its history into a new folder, and return the folder's absolute path.

    The default `folder` is in the current folder, and has the name of the repository. `stopped` is called several
    times a second; if it returns True, the new folder is removed and Stopped is raised. Raises UsageError,
    StorageError, and WorkbenchError if git fails.
    """
    check_url(url)
    destination = os.path.abspath(os.path.expanduser(folder or name_in(url)))
    with new_folder(destination) as building:
        clone(url, building, stopped=stopped)
    return destination


def is_url(text: str) -> bool:
    """Return True if a text has the form of a URL that git may clone."""
    return bool(_URL.fullmatch(text)) and text.isprintable()


def check_url(url: str) -> None:
    """Raise UsageError if git may not clone this URL."""
    if not is_url(url):
        raise UsageError(
            f"{mask_text(url)!r} is not the URL of a repository",
            remedy="Use a URL such as https://HOST/PATH, ssh://USER@HOST/PATH or USER@HOST:PATH, or file:///PATH for a "
            "repository on this machine.",
        )
    if mask_text(url) != url:
        raise UsageError(
            f"{mask_text(url)} contains a secret or a user name",
            remedy="Remove the secret or user name, because other users of this machine could read it while git runs. "
            "To log in, use SSH or a credential helper of git.",
        )


def name_in(url: str) -> str:
    """Return the name of the repository in a URL. Raises UsageError if it has none."""
    name = re.split("[/:]", url.rstrip("/"))[-1].removesuffix(".git")
    if not name.strip(".") or name.startswith("-"):
        raise UsageError(f"{mask_text(url)} contains no name for the folder", remedy="Give the name of the new folder.")
    return name


def clone(
    url: str,
    destination: str,
    *options: str,
    variables: Mapping[str, str] | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Clone a repository into the empty folder `destination`, with `variables` in the environment of git.

    Raises UsageError, WorkbenchError if git fails, Stopped and OSError.
    """
    check_url(url)
    variables = {**_VARIABLES, **(variables or {})}
    kept = {name: value for name, value in os.environ.items() if name not in _OF_REPOSITORY}
    command = ["git", "clone", "--progress", "--template=", *options, "--", url, destination]
    with contextlib.ExitStack() as meters:
        try:
            done = run(
                command,
                kind=trace.GIT,
                folder="/",  # the current folder can be in a repository
                environment={**clean_environment(kept), **variables},
                variables=variables,
                on_errors=_Report(meters, stopped).update,
                new_session=True,
                log_start=True,
            )
        except FileNotFoundError as error:
            raise UsageError(
                "cloning a repository needs git, which is not on the PATH",
                remedy="Install git, or add its folder to the PATH.",
            ) from error
    if done.returncode != 0:
        lines = [line for line in _text(done.stderr).splitlines() if line.strip() and not line.startswith(_REPEATED)]
        reason = (lines or [f"exit code {done.returncode}"])[-1].removeprefix("fatal: ").strip(" .")
        raise WorkbenchError(
            f"cannot clone {url}: {reason}",
            remedy="Check the URL, the network connection, the free disk space and your access to the repository. Git "
            "cannot ask questions here: a private repository needs an SSH agent or a credential helper of git, and ssh "
            "a known host key.",
        )


class _Report:
    """A reporter of git's progress, with a new meter for each phase. `meters` closes the meters."""

    def __init__(self, meters: contextlib.ExitStack, stopped: Callable[[], bool]) -> None:
        self._meters = meters
        self._stopped = stopped
        self._phase = ""
        self._meter: Meter | None = None

    def update(self, errors: bytes) -> None:
        """Report the last progress in `errors`, the stderr output of git so far. Raises Stopped."""
        if self._stopped():
            raise Stopped
        matches = list(_PROGRESS.finditer(_text(errors)))
        if not matches:
            return
        verb, noun, done, total = matches[-1].groups()
        if self._meter is None or verb != self._phase:
            self._phase = verb
            self._meter = self._meters.enter_context(meter(verb.lower(), _UNITS.get(noun, noun)))
        self._meter.update(float(done), float(total))


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace")
