"""The folder of GPU reservations on a machine, which is private to a user or shared by several users.

An entry is a symbolic link with a random name, whose text is the content of the entry:

    run GPU DIRECTORY           the run with this directory has reserved the GPU
    hold GPU END                a user has reserved the GPU until END, in seconds since the epoch
    wait COUNT SINCE DIRECTORY  the run with this directory has waited since SINCE for COUNT GPUs

Entries of other users are untrusted. Links are read but never followed, so no file of another user is opened. The user
of an entry is the owner of the link. In a shared folder, the sticky bit prevents users from removing entries of
other users. All times are those of the machine's clock.

`Folder.change` locks the folder itself, because users could replace a lock file. The method changes nothing if the
entries differ from the listing on which the caller's decision is based.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable
from typing import NamedTuple

from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.hosts.host import Host

RUN, HOLD, WAIT = "run", "hold", "wait"

LONGEST_HOLD = 7 * 86400.0
"""Maximum duration of a reservation in seconds. An entry with a later end is valid for this time only."""

RUN_SECONDS = 86400.0
"""Seconds after which the entry of another user's run is ignored.

The run may have ended without removing its entry. Without this limit, such an entry could be valid forever.
"""

TICKET_SECONDS = 180.0
"""Seconds after which a waiting run counts as gone if it has not renewed its entry."""

SECONDS = 90.0  # timeout of a script, which may wait for the lock
_MOST = 200
_MISSING, _NOT_STICKY, _DENIED, _LOCKED, _TOO_MANY, _CHANGED = 70, 71, 72, 73, 74, 75  # exit codes of the script

_LIST_AND_CHANGE = shell_script("targets/reservations/scripts/reservations.sh")

THIS, OVER = "this", "over"  # states of entries: of the given run, and of a run of this user that has ended


class GpusBusy(WorkbenchError):
    """GPUs cannot be reserved now: too few are free, or the folder cannot be changed. Waiting runs try again."""


class Entry(NamedTuple):
    """An entry of the folder. Only its owner and the time of its creation are certain."""

    name: str
    uid: int
    created: float
    user: str
    state: str
    kind: str
    gpu: str = ""  # the ID of the GPU
    wanted: int = 0  # number of GPUs that a run waits for
    moment: float = 0.0  # the end of a hold, or the time since which a run has waited
    directory: str = ""  # the directory of the run, without characters that cannot be printed

    @property
    def run_id(self) -> str:
        return posixpath.basename(self.directory)


class Listing(NamedTuple):
    """The valid entries of a folder, and the names of this user's entries that are no longer valid."""

    now: float = 0.0
    uid: int = -1
    stamp: str = ""
    entries: tuple[Entry, ...] = ()
    expired: tuple[str, ...] = ()

    def of_kind(self, kind: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.kind == kind]

    def is_own(self, entry: Entry) -> bool:
        return entry.uid == self.uid


def parse(text: str) -> Listing:
    """Return the listing that the script printed. Raises ValueError if its first line is incomplete."""
    first, *lines = text.split("\n")
    now, boot, uid, stamp = first.split()
    listing = Listing(float(now), int(uid), stamp)
    entries = [entry for line in lines if (entry := _parse_entry(line)) is not None]
    valid = tuple(entry for entry in map(_with_limit, entries) if _is_valid(entry, listing, float(boot)))
    kept = {entry.name for entry in valid}
    expired = [entry.name for entry in entries if listing.is_own(entry) and entry.name not in kept]
    return listing._replace(entries=valid, expired=tuple(expired))


def _parse_entry(line: str) -> Entry | None:
    try:
        facts, user = line.split("\t")
        name, uid, created, state, kind, text = facts.split(" ", 5)
        entry = Entry(name, int(uid), float(created), user, state, kind)
        if kind == RUN:
            gpu, directory = text.split(" ", 1)
            return entry._replace(gpu=gpu, directory=directory)
        if kind == HOLD:
            gpu, end = text.split(" ")
            return entry._replace(gpu=gpu, moment=float(int(end)))
        if kind == WAIT:
            count, since, directory = text.split(" ", 2)
            return entry._replace(wanted=int(count), moment=float(int(since)), directory=directory)
    except (ValueError, OverflowError):
        pass
    return None


def _with_limit(entry: Entry) -> Entry:
    """Return the entry with a `moment` that is at most LONGEST_HOLD from its creation."""
    if entry.kind == HOLD:
        return entry._replace(moment=min(entry.moment, entry.created + LONGEST_HOLD))
    if entry.kind == WAIT:
        return entry._replace(moment=min(max(entry.moment, entry.created - LONGEST_HOLD), entry.created))
    return entry


def _is_valid(entry: Entry, listing: Listing, boot: float) -> bool:
    if entry.kind == HOLD:
        return listing.now < entry.moment
    if entry.kind == WAIT:
        return entry.wanted > 0 and entry.state != OVER and listing.now - entry.created < TICKET_SECONDS
    if listing.is_own(entry):
        return entry.state != OVER
    return entry.created >= boot and listing.now - entry.created < RUN_SECONDS


class Folder:
    """The folder of reservations on the machine of a target. Calls can raise WorkbenchError."""

    def __init__(self, host: Host, target: ComputeTarget) -> None:
        self._host = host
        self._target = target
        self.is_shared = bool(target.gpu_reservations)
        # Runs that are started on the machine and over SSH share a private folder.
        home = os.path.expanduser("~/.workbench-tui") if host.is_local else host.home()
        self.path = target.gpu_reservations or posixpath.join(home, "gpus")

    def read(self, run: str = "") -> Listing:
        """Return the entries. `run` is the directory of the run whose entries get the state THIS."""
        listing = self._call(run, "", ())
        if listing is None:
            raise ValueError("a call without an expected checksum cannot find a change")
        return listing

    def change(self, listing: Listing, add: Iterable[str], remove: Iterable[str], run: str = "") -> bool:
        """Add entries with the texts `add`, then remove this user's expired entries and those with the names `remove`.

        Return False without any change if the entries are no longer those of `listing`, which was read for the same
        `run`.
        """
        # A link that the user has made by hand may have another name.
        names = [name for name in (*remove, *listing.expired) if name != "-"]
        # Entries are added first, so that an error in between leaves a reservation twice instead of removing it.
        changes = [f"+{text}" for text in add] + [f"-{name}" for name in names]
        return not changes or self._call(run, listing.stamp, changes) is not None

    def _call(self, run: str, stamp: str, changes: Iterable[str]) -> Listing | None:
        shared = "shared" if self.is_shared else ""
        arguments = [self.path, shared, run, stamp, str(_MOST), *changes]
        done = self._host.run(["sh", "-c", _LIST_AND_CHANGE, "sh", *arguments], timeout=SECONDS)
        if done.code == _CHANGED:
            return None
        folder, label = self.path, self._host.label
        if done.code != 0:
            problem = self._problem(done.code)
            if isinstance(problem, GpusBusy) and not self.is_shared:
                # Runs do not wait for the user's own folder.
                problem = WorkbenchError(problem.message, remedy=problem.remedy)
            raise problem or WorkbenchError(
                f"cannot use the GPU reservations in {folder} on {label}: {done.complaint}",
                remedy="Check the disk space and your permissions on that machine.",
            )
        try:
            return parse(done.stdout.decode("ascii", "replace").removesuffix("\n"))
        except ValueError:
            raise WorkbenchError(
                f"cannot read the GPU reservations in {folder} on {label}: unexpected output",
                remedy="Check that the programs in your login shell's start-up files print nothing.",
            ) from None

    def _problem(self, code: int) -> WorkbenchError | None:
        """Return the error for an exit code of the script, or None if its cause is not known."""
        label, folder, path = self._host.label, self.path, self._target.path
        line = line_of_key(path, "gpuReservations")
        if code == _MISSING:
            return ConfigurationError(
                f"{folder} is not a folder on {label}",
                remedy=f"Create it there for the group of its users: `sudo install -d -m 3770 -g GROUP {folder}`.",
                file=path,
                line=line,
            )
        if code == _NOT_STICKY:
            return ConfigurationError(
                f"{folder} on {label} has no sticky bit, so users could remove the reservations of others",
                remedy=f"Run there, as the owner of the folder: `chmod +t {folder}`.",
                file=path,
                line=line,
            )
        if code == _DENIED:
            return ConfigurationError(
                f"you have no permission to use {folder} on {label}",
                remedy=f"Ask the owner of the folder to add you to its group; `ls -ld {folder}` on that machine shows "
                f"both. Then log in again; over SSH, run `workbench-tui computetarget disconnect "
                f"{self._target.name}` first.",
                file=path,
                line=line,
            )
        if code == _LOCKED:
            return GpusBusy(
                f"another process has locked {folder} on {label} for a minute",
                remedy=f"`sudo fuser -v {folder}` shows the process there. End it, or ask its owner to.",
            )
        if code == _TOO_MANY:
            return GpusBusy(
                f"{folder} on {label} has more than {_MOST} links",
                remedy="Remove your old links there, and ask other users to remove theirs.",
            )
        return None
