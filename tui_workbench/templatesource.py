"""Templates from elsewhere: a folder of the user's, or a git repository.

What is taken is what its owner keeps in it: not what its ignore files exclude, not its runs, not its history.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile

from tui_workbench import trace
from tui_workbench.errors import UsageError
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.urls import without_secrets

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

_QUIET = {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def fill(place: str, source: str, left_out: AbstractSet[str]) -> None:
    """Copy a template into the empty folder `place`. `source` is an absolute path or the address of a repository.

    `left_out` are names of folders that are not copied, wherever they are.

    Raises UsageError when it cannot be had, OSError when it cannot be written.
    """
    if os.path.isabs(source):
        _copy(source, place, left_out)
    else:
        _clone(source, place)


def _clone(address: str, place: str) -> None:
    git = shutil.which("git")
    shown = without_secrets(address)
    if git is None:
        raise UsageError("a template from a repository needs git, which is not on the PATH", remedy="Install git.")
    command = [git, "clone", "--quiet", "--depth=1", "--no-tags", "--template=", "--", address, place]
    with trace.Call(trace.GIT, command, variables=_QUIET, lasts=True) as call:
        done = subprocess.run(
            command,
            env={**_environment(), "GIT_LFS_SKIP_SMUDGE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        call.end(done.returncode, done.stderr)
    if done.returncode != 0:
        lines = [line for line in done.stderr.decode("utf-8", "replace").split("\n") if line.strip()]
        said = (lines or [f"exit code {done.returncode}"])[-1].replace(address, shown).removeprefix("fatal: ")
        raise UsageError(
            f"the template {shown} cannot be had: {said.strip()}", remedy="Check the address, and your access to it."
        )
    shutil.rmtree(os.path.join(place, ".git"))


def _copy(source: str, place: str, left_out: AbstractSet[str]) -> None:
    for relative in _wanted(source):
        if not left_out.isdisjoint(relative.split(os.sep)):
            continue
        path, copy = os.path.join(source, relative), os.path.join(place, relative)
        # Of a folder that is being used something may be gone by now, or be no file at all.
        if not os.path.islink(path) and not os.path.isfile(path):
            continue
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        shutil.copyfile(path, copy, follow_symlinks=False)
        if not os.path.islink(path):
            os.chmod(copy, 0o755 if os.access(path, os.X_OK) else 0o644)


def _wanted(source: str) -> list[str]:
    """The files of a folder that its ignore files do not exclude; all files where there is no git to read those."""
    git = shutil.which("git")
    if git is not None:
        with tempfile.TemporaryDirectory() as repository:
            run = [git, f"--git-dir={repository}", f"--work-tree={source}"]
            if _run([*run, "init", "--quiet", "--template="], source) is not None:
                listed = _run([*run, "ls-files", "--others", "--exclude-standard", "-z"], source)
                if listed is not None:
                    return _with_nested(source, [os.fsdecode(name) for name in listed.split(b"\0") if name])
    return _with_nested(source, [""])


def _with_nested(source: str, names: list[str]) -> list[str]:
    """The names, with the files of folders that git lists as one: repositories of their own."""
    found = [name for name in names if name and not name.endswith("/")]
    for nested in (name for name in names if not name or name.endswith("/")):
        for folder, folders, files in os.walk(os.path.join(source, nested)):
            folders.sort()
            found += [os.path.relpath(os.path.join(folder, file), source) for file in sorted(files)]
    return found


def _run(command: list[str], folder: str) -> bytes | None:
    with trace.Call(trace.GIT, command, folder=folder) as call:
        done = subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, check=False)
        call.end(done.returncode, done.stderr)
    return done.stdout if done.returncode == 0 else None


def _environment() -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name == "GIT_SSH_COMMAND"
    }
    return {**kept, **_QUIET}
