"""What `doctor` finds out about folders, disks and the clock. Nothing is written to find out."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from tui_workbench.cli.doctor.answer import Answer, ask, broken, limited, ok
from tui_workbench.core import directories
from tui_workbench.core.directories import abbreviate_home
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.projects.project import Project

LITTLE, NOTHING = 1 << 30, 50 << 20
"""Bytes: below the first a run's copy and outputs may not fit, below the second hardly a log does."""

FEW_FILES = 1000

PATIENCE = 5.0
"""Seconds for the service that keeps the clock."""


def answers(project: str) -> Iterator[Answer]:
    """The user's own folders, the project's, their disks, and the clock."""
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
    """Whether the user's own folders can be written, or made."""
    closed = {name: path for name, path in named.items() if not _can_write(path)}
    if not closed:
        return ok("folders", f"{', '.join(named)} can be written, as {abbreviate_home(next(iter(named.values())))}")
    first = next(iter(closed.values()))
    message = ", ".join(f"{name} {abbreviate_home(path)}" for name, path in closed.items()) + " cannot be written"
    cost = "What is set and remembered is lost at the end; passwords, keys and connections have no place."
    return limited("folders", message, cost, "See whose they are:", f"ls -ld {_existing(first)}")


def project_folder(root: str) -> Answer:
    """Whether the project can hold its runs."""
    if _can_write(os.path.join(root, ".workbench")):
        return ok("project", f"{abbreviate_home(root)} holds its runs")
    runs = abbreviate_home(directories.user_data_directory())
    cost = f"Its runs are kept in {runs} instead, and its files cannot be edited."
    return limited("project", f"{abbreviate_home(root)} cannot be written", cost, "See whose it is:", f"ls -ld {root}")


def disk(paths: list[str]) -> Answer:
    """The one with the least room of those where something is kept."""
    rooms = []
    for path in paths:
        place = _existing(path)
        try:
            room = os.statvfs(place)
        except OSError:
            continue
        # A file system that makes its inodes as it goes says that it has none at all.
        has_files = not room.f_files or room.f_favail > FEW_FILES
        rooms.append((room.f_bavail * room.f_frsize if has_files else 0, place))
    if not rooms:
        return limited("disk", "no file system says how much room it has", "A full disk ends runs.")
    free, place = min(rooms)
    said = f"{free / 1e9:.1f} GB free at {abbreviate_home(place)}"
    if free >= LITTLE:
        return ok("disk", said)
    remedy = "See what takes the room; `experiment clean` removes what runs left:"
    command = f"du -xh {place} | sort -h | tail"
    if free >= NOTHING:
        return limited("disk", said, "Copies and outputs of runs may not fit.", remedy, command)
    return broken("disk", said, "Runs fail, and nothing can be saved.", remedy, command)


def clock() -> Answer:
    """Whether the clock can be right, and something keeps it right."""
    now = time.strftime("%Y-%m-%d %H:%M %Z")
    installed = os.stat(os.path.join(os.path.dirname(directories.__file__), "__init__.py")).st_mtime
    command = "sudo timedatectl set-ntp true"
    if time.time() < installed - 86400:
        cost = "Times of runs are wrong, and certificates and logins of other machines may be refused."
        return broken("clock", f"{now} is before this program was installed", cost, "Set it:", command)
    told = ask("timedatectl", "show", "--property=NTPSynchronized", "--value", patience=PATIENCE)
    if told is not None and told.code == 0 and told.text.strip() == "no":
        cost = "Times told by other machines may differ from this one's."
        return limited("clock", f"{now}; nothing keeps it right", cost, "Have it kept:", command)
    return ok("clock", now)


def _can_write(path: str) -> bool:
    place = _existing(path)
    return os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK)


def _existing(path: str) -> str:
    """What is there, or the nearest thing above it that is: a folder, or a file in the place of one."""
    while not os.path.lexists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path
