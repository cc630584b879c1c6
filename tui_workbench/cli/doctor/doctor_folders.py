"""Checks of the operating system, folders, disks and the clock.

The workbench is tested on Linux, and runs on Windows only in WSL 2.
"""

from __future__ import annotations

import os
import platform
import shlex
import time
from collections.abc import Iterator

from tui_workbench.cli.doctor.answer import Answer, broken, limited, ok, run_program
from tui_workbench.core import directories
from tui_workbench.core.directories import abbreviate_home
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.projects.project import Project

LOW_SPACE, NO_SPACE = 1 << 30, 50 << 20
"""Limits in bytes. Below LOW_SPACE, the files of a run may not fit; below NO_SPACE, even a log may not fit."""

FEW_FILES = 1000

CLOCK_SECONDS = 5.0
"""Time limit for timedatectl, in seconds."""

_SYSTEM = "system"


def system(release: platform.uname_result, project: str) -> Answer:
    """Check the system that `platform.uname` describes, and the location of the project folder.

    In WSL, the release of the kernel ends with `-Microsoft` in version 1, and contains `-microsoft-standard` in
    version 2. Windows drives are mounted below `/mnt`, each in a folder with one letter.
    """
    release_text = f"{release.system} {release.release}, {release.machine}"
    if release.system != "Linux":
        cost = "The workbench has been tested only on Linux, in part with Linux-only features disabled."
        remedy = "If a command fails, report the error and the output of `workbench-tui doctor`."
        return limited(_SYSTEM, release_text, cost, remedy)
    if "microsoft" not in release.release.lower():
        return ok(_SYSTEM, release_text)
    if release.release.endswith("-Microsoft"):
        cost = "WSL 1 has no GPUs and no Docker, and its files behave differently."
        distribution = os.environ.get("WSL_DISTRO_NAME") or "Ubuntu"
        remedy = "Convert this distribution in a Windows terminal:"
        return broken(_SYSTEM, f"{release_text}: WSL 1", cost, remedy, f"wsl --set-version {distribution} 2")
    parts = os.path.realpath(project).split(os.sep)
    if parts[1:2] == ["mnt"] and len(parts) > 2 and len(parts[2]) == 1:
        cost = f"The project is on the Windows drive {parts[2].upper()}:, where reading and writing files is slow."
        return limited(
            _SYSTEM, f"{release_text}: WSL 2", cost, "Move the project to the Linux file system, such as ~/projects."
        )
    return ok(_SYSTEM, f"{release_text}: WSL 2")


def answers(project: str) -> Iterator[Answer]:
    named = {
        "config": directories.user_config_directory(),
        "state": directories.user_state_directory(),
        "data": directories.user_data_directory(),
        "cache": directories.user_cache_directory(),
    }
    yield folders(named)
    root = _project_root(project)
    if root:
        yield project_folder(root)
    yield disk([path for path in (root, *named.values()) if path])
    yield clock()


def _project_root(path: str) -> str:
    try:
        return Project.find(path).root
    except WorkbenchError:
        return ""


def folders(named: dict[str, str]) -> Answer:
    """Check that the user's folders are writable or can be created."""
    closed = {name: path for name, path in named.items() if not _can_write(path)}
    if not closed:
        example = abbreviate_home(next(iter(named.values())))
        return ok("folders", f"{', '.join(named)} are writable, for example {example}")
    first = next(iter(closed.values()))
    message = "not writable: " + ", ".join(f"{name} {abbreviate_home(path)}" for name, path in closed.items())
    cost = "The workbench cannot store settings, state, keys or caches there."
    command = f"ls -ld {shlex.quote(_existing(first))}"
    return limited("folders", message, cost, "Check the owner and the permissions:", command)


def project_folder(root: str) -> Answer:
    """Check that the project can store its runs."""
    if _can_write(os.path.join(root, ".workbench")):
        return ok("project", f"{abbreviate_home(root)} is writable")
    cost = f"Runs are stored in {abbreviate_home(directories.user_data_directory())}; project files cannot be edited."
    message = f"{abbreviate_home(root)} is not writable"
    return limited("project", message, cost, "Check the owner and the permissions:", f"ls -ld {shlex.quote(root)}")


def disk(paths: list[str]) -> Answer:
    """Check the free space of the fullest disk of these folders."""
    disks = []
    for path in paths:
        folder = _existing(path)
        try:
            status = os.statvfs(folder)
        except OSError:
            continue
        # A file system that creates inodes on demand reports 0 in total.
        is_full = bool(status.f_files) and status.f_favail <= FEW_FILES
        disks.append((0 if is_full else status.f_bavail * status.f_frsize, is_full, folder))
    if not disks:
        return limited("disk", "free space unknown", "Runs fail when the disk is full.")
    free, is_full, folder = min(disks)
    amount = "no inodes" if is_full else f"{free / 1e9:.1f} GB"
    message = f"{amount} free at {abbreviate_home(folder)}"
    if free >= LOW_SPACE:
        return ok("disk", message)
    remedy = "Run `workbench-tui experiment clean`, or find the largest files:"
    command = f"du -xh {shlex.quote(folder)} | sort -h | tail"
    if free >= NO_SPACE:
        return limited("disk", message, "Snapshots and outputs of runs may not fit.", remedy, command)
    return broken("disk", message, "Runs fail, and nothing can be saved.", remedy, command)


def clock() -> Answer:
    """Check that the clock is plausible and synchronized."""
    now = time.strftime("%Y-%m-%d %H:%M %Z")
    installed = os.stat(os.path.join(os.path.dirname(directories.__file__), "__init__.py")).st_mtime
    command = "sudo timedatectl set-ntp true"
    if time.time() < installed - 86400:
        cost = "Times of runs are wrong, and other machines may refuse certificates and logins."
        return broken("clock", f"{now} is before this program was installed", cost, "Set the clock:", command)
    done = run_program("timedatectl", "show", "--property=NTPSynchronized", "--value", timeout=CLOCK_SECONDS)
    if done is not None and done.code == 0 and done.text.strip() == "no":
        cost = "Times may differ from those of other machines."
        return limited("clock", f"{now}, not synchronized", cost, "Synchronize the clock:", command)
    return ok("clock", now)


def _can_write(path: str) -> bool:
    existing = _existing(path)
    return os.path.isdir(existing) and os.access(existing, os.W_OK | os.X_OK)


def _existing(path: str) -> str:
    """Return the path, or its nearest existing parent."""
    while not os.path.lexists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path
