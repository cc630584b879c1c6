"""`--version --check`: print the installed version, its source, and the newest version of the source.

No other command looks for newer versions.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys

from tui_workbench import __version__
from tui_workbench.core import trace
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.installation import (
    FILE,
    FOLDER,
    GIT,
    INDEX,
    NAME,
    URL,
    Source,
    find_installer,
    find_source,
    has_pip,
    repeat_command,
)
from tui_workbench.core.json_values import parse_json
from tui_workbench.core.plaintext import visible
from tui_workbench.core.processes import clean_environment, run
from tui_workbench.targets.environments.uv import find_uv

SECONDS = 60.0
"""Time limit for the answer of an index or of a git repository."""

_VERSION_TAG = re.compile(r"refs/tags/v?\d+(\.\d+)*")


def check_version() -> int:
    """Print the installed version, the installer, the source and its newest version. Raises the error of `newest`."""
    source = find_source()
    editable = ", editable" if source.is_editable else ""
    origins = {INDEX: "a package index", GIT: f"git, {source.location}"}
    origin = origins.get(source.kind, f"the {source.kind} {source.location}{editable}")
    lines = (
        f"workbench-tui {__version__}",
        f"Python {platform.python_version()} ({sys.executable})",
        f"installed by {find_installer()} from {origin}",
    )
    sys.stdout.write("".join(f"{visible(line)}\n" for line in lines))
    sys.stdout.flush()
    sys.stdout.write("".join(f"{visible(line)}\n" for line in newest(source).split("\n")))
    return 0


def newest(source: Source) -> str:
    """Return lines about the newest version of a source. Raises WorkbenchError if the source does not answer."""
    if source.kind in (FOLDER, FILE, URL):
        return f"no newer version to look for: a {source.kind} contains one version"
    if source.kind == GIT:
        return _newest_in_git(source)
    version = _newest_in_index()
    return _compare("version", version, __version__)


def _compare(kind: str, latest: str, installed: str) -> str:
    if latest == installed:
        return f"newest {kind}: {latest} (installed)"
    return f"newest {kind}: {latest}; installed: {installed}\nupdate: {repeat_command(upgrade=True)}"


def _newest_in_git(source: Source) -> str:
    """Compare the installed commit with the branch, or the installed tag with the newest tag."""
    listing = _ask(["git", "ls-remote", "--sort=version:refname", source.location], kind=trace.GIT)
    commits = {name: commit for commit, name in (line.split("\t") for line in listing.splitlines())}
    branch = f"refs/heads/{source.revision}" if source.revision else "HEAD"
    if branch in commits:
        return _compare(f"commit of {source.revision or 'the default branch'}", commits[branch], source.commit)
    tags = [name.removeprefix("refs/tags/") for name in commits if _VERSION_TAG.fullmatch(name)]
    if not tags:
        return f"no newer version to look for: the repository has no branch {source.revision!r} and no version tag"
    is_newest = source.revision == tags[-1]
    return f"newest tag: {tags[-1]}{' (installed)' if is_newest else f'; installed: {source.revision}'}"


def _newest_in_index() -> str:
    """Return the newest version in the index that pip or uv is configured to use."""
    if has_pip():
        options = ("--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--report", "-")
        report = parse_json(_ask([sys.executable, "-m", "pip", "install", *options, NAME]))
        return str(report["install"][0]["metadata"]["version"])
    options = ("--quiet", "--no-deps", "--no-header", "--no-annotate", "--python", sys.executable)
    return _ask([find_uv(), "pip", "compile", *options, "-"], NAME).strip().partition("==")[2]


def _ask(command: list[str], text: str = "", *, kind: str = trace.PROCESS) -> str:
    """Run a command that queries the source, and return the output. Raises WorkbenchError."""
    environment = {**clean_environment(os.environ), "GIT_TERMINAL_PROMPT": "0"}
    try:
        # The current folder can be an untrusted project, with a configuration of git or uv.
        done = run(command, kind=kind, folder="/", environment=environment, input=text.encode(), timeout=SECONDS)
        complaint = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2] if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        complaint = str(error)
    if complaint:
        raise WorkbenchError(
            f"cannot look for newer versions: {complaint}",
            remedy="Check the network, your access to the source, and that the program that queries the source (git, "
            "pip or uv) is installed.",
        )
    return done.stdout.decode("utf-8", "replace")
