"""Checks of folders, disks and the clock."""

from __future__ import annotations

import os
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
    rooms = []
    for path in paths:
        place = _existing(path)
        try:
            room = os.statvfs(place)
        except OSError:
            continue
        # A file system that creates inodes on demand reports 0 in total.
        is_full = bool(room.f_files) and room.f_favail <= FEW_FILES
        rooms.append((0 if is_full else room.f_bavail * room.f_frsize, is_full, place))
    if not rooms:
        return limited("disk", "free space unknown", "Runs fail when the disk is full.")
    free, is_full, place = min(rooms)
    amount = "no inodes" if is_full else f"{free / 1e9:.1f} GB"
    message = f"{amount} free at {abbreviate_home(place)}"
    if free >= LOW_SPACE:
        return ok("disk", message)
    remedy = "Run `workbench-tui experiment clean`, or find the largest files:"
    command = f"du -xh {shlex.quote(place)} | sort -h | tail"
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
    place = _existing(path)
    return os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK)


def _existing(path: str) -> str:
    """Return the path, or its nearest existing parent."""
    while not os.path.lexists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path
