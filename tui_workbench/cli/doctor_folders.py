"""What `doctor` finds out about folders, disks and the clock. Nothing is written to find out."""

from __future__ import annotations

import os
import time

from tui_workbench import resources
from tui_workbench.cli.doctor import BROKEN, LIMITED, OK, Answer
from tui_workbench.errors import TargetUnreachable, WorkbenchError
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LITTLE, NOTHING = 1 << 30, 50 << 20
"""Bytes: below the first a run's copy and outputs may not fit, below the second hardly a log does."""

FEW_FILES = 1000

PATIENCE = 5.0
"""Seconds for the service that keeps the clock."""


def answers(project: str) -> Iterator[Answer]:
    """The user's own folders, the project's, their disks, and the clock."""
    named = {
        "config": resources.user_config_directory(),
        "state": resources.user_state_directory(),
        "data": resources.user_data_directory(),
        "cache": resources.user_cache_directory(),
    }
    yield folders(named)
    root = _project_root(project)
    if root:
        yield project_folder(root)
    yield disk([path for path in (root, *named.values()) if path])
    yield clock()


def _project_root(path: str) -> str:
    from tui_workbench.project import Project

    try:
        return Project.find(path).root
    except WorkbenchError:
        return ""


def folders(named: dict[str, str]) -> Answer:
    """Whether the user's own folders can be written, or made."""
    closed = {name: path for name, path in named.items() if not _can_write(path)}
    if not closed:
        return Answer("folders", OK, f"{', '.join(named)} can be written, as {_short(next(iter(named.values())))}")
    first = next(iter(closed.values()))
    message = ", ".join(f"{name} {_short(path)}" for name, path in closed.items()) + " cannot be written"
    cost = "What is set and remembered is lost at the end; passwords, keys and connections have no place."
    return Answer("folders", LIMITED, message, cost, "See whose they are:", f"ls -ld {_existing(first)}")


def project_folder(root: str) -> Answer:
    """Whether the project can hold its runs."""
    if _can_write(os.path.join(root, ".workbench")):
        return Answer("project", OK, f"{_short(root)} holds its runs")
    cost = f"Its runs are kept in {_short(resources.user_data_directory())} instead, and its files cannot be edited."
    return Answer("project", LIMITED, f"{_short(root)} cannot be written", cost, "See whose it is:", f"ls -ld {root}")


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
        return Answer("disk", LIMITED, "no file system says how much room it has", "A full disk ends runs.")
    free, place = min(rooms)
    said = f"{free / 1e9:.1f} GB free at {_short(place)}"
    if free >= LITTLE:
        return Answer("disk", OK, said)
    remedy, command = (
        "See what takes the room; `experiment clean` removes what runs left:",
        f"du -xh {place} | sort -h | tail",
    )
    if free >= NOTHING:
        return Answer("disk", LIMITED, said, "Copies and outputs of runs may not fit.", remedy, command)
    return Answer("disk", BROKEN, said, "Runs fail, and nothing can be saved.", remedy, command)


def clock() -> Answer:
    """Whether the clock can be right, and something keeps it right."""
    now = time.strftime("%Y-%m-%d %H:%M %Z")
    installed = os.stat(os.path.join(os.path.dirname(resources.__file__), "__init__.py")).st_mtime
    cost = "Times of runs are wrong, and certificates and logins of other machines may be refused."
    if time.time() < installed - 86400:
        return Answer(
            "clock",
            BROKEN,
            f"{now} is before this program was installed",
            cost,
            "Set it:",
            "sudo timedatectl set-ntp true",
        )
    if _is_synchronized() is False:
        cost = "Times told by other machines may differ from this one's."
        return Answer(
            "clock", LIMITED, f"{now}; nothing keeps it right", cost, "Have it kept:", "sudo timedatectl set-ntp true"
        )
    return Answer("clock", OK, now)


def _is_synchronized() -> bool | None:
    """What the system says of its clock; None where it does not say."""
    from tui_workbench.targets.host import LocalHost

    try:
        done = LocalHost().run(["timedatectl", "show", "--property=NTPSynchronized", "--value"], timeout=PATIENCE)
    except TargetUnreachable:
        return None
    return {"yes": True, "no": False}.get(done.text.strip()) if done.code == 0 else None


def _can_write(path: str) -> bool:
    place = _existing(path)
    return os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK)


def _existing(path: str) -> str:
    """What is there, or the nearest thing above it that is: a folder, or a file in the place of one."""
    while not os.path.lexists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path


def _short(path: str) -> str:
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if path == home or path.startswith(home + os.sep) else path
