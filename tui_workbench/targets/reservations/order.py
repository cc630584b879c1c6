"""The choice of GPUs for a run or a user, and the order of the waiting runs.

Runs of the user who holds the fewest GPUs come first, and among equals the run that has waited longest. A run takes
free GPUs only if enough are left for all runs before it, so a run that needs many GPUs does not wait forever. Runs that
want more GPUs than users have left unreserved are skipped, because they would keep GPUs idle until a reservation ends.
A user holds the GPUs of the user's runs and reservations. The GPUs of a user's reservations are for the user's own
runs, which need not wait for runs of other users.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

from tui_workbench.core.plaintext import counted
from tui_workbench.targets.reservations.folder import HOLD, RUN, THIS, WAIT, Entry, Listing


class Choice(NamedTuple):
    """The IDs of the GPUs to take.

    If too few GPUs are available, `gpus` is empty, `missing` is the number of other GPUs that the run needs, and
    `ahead` contains the waiting runs that come first.
    """

    gpus: tuple[str, ...] = ()
    missing: int = 0
    ahead: tuple[Entry, ...] = ()


def choose(listing: Listing, count: int, free: Sequence[str], every: Sequence[str]) -> Choice:
    """Choose GPUs for the run whose entries have the state THIS.

    `free` contains the IDs of the GPUs that no process uses, in order; `every` contains the IDs of all GPUs of the
    machine. The run keeps the GPUs that it has. It takes no other GPU if it cannot have all that it needs.
    """
    kept = [gpu for gpu in free if any(entry.gpu == gpu and entry.state == THIS for entry in listing.of_kind(RUN))]
    kept = kept[:count]
    allowed = [gpu for gpu in free if gpu not in kept and holder(listing, gpu) is None]
    reserved = {entry.gpu for entry in listing.of_kind(HOLD) if listing.is_own(entry)}
    own = [gpu for gpu in allowed if gpu in reserved]
    common = [gpu for gpu in allowed if gpu not in reserved]
    needed = max(0, count - len(kept) - len(own))
    unreserved = set(every) - {entry.gpu for entry in listing.of_kind(HOLD)}
    # A run for which its own and the reserved GPUs are enough does not wait for other runs.
    ahead = tuple(entry for entry in _ahead(listing) if entry.wanted <= len(unreserved)) if needed else ()
    if needed and needed > len(common) - sum(entry.wanted for entry in ahead):
        return Choice(missing=needed, ahead=ahead)
    return Choice(tuple([*kept, *own, *common][:count]))


def holder(listing: Listing, gpu: str) -> Entry | None:
    """Return the entry of another run, or another user's reservation, that prevents this run from taking a GPU.

    Returns None if the run may take the GPU. Entries that other users have made after an entry of this user have no
    effect, because the workbench never makes such entries.
    """
    on_gpu = [entry for entry in listing.entries if entry.gpu == gpu]
    since = min((entry.created for entry in on_gpu if listing.is_own(entry)), default=math.inf)
    valid = [entry for entry in on_gpu if listing.is_own(entry) or entry.created <= since]
    runs = [entry for entry in valid if entry.kind == RUN and entry.state != THIS]
    return next(iter([*runs, *(entry for entry in valid if entry.kind == HOLD and not listing.is_own(entry))]), None)


def held(listing: Listing, uid: int) -> int:
    """Return the number of GPUs that a user holds."""
    return len({entry.gpu for entry in listing.entries if entry.gpu and entry.uid == uid})


def waiting_since(listing: Listing) -> float:
    """Return the time since which this run has waited; the current time if it has not waited yet."""
    return min([listing.now, *(entry.moment for entry in listing.of_kind(WAIT) if entry.state == THIS)])


def _ahead(listing: Listing) -> tuple[Entry, ...]:
    """Return the waiting runs that come before this run."""
    own_position = (held(listing, listing.uid), waiting_since(listing), listing.uid)
    others = [entry for entry in listing.of_kind(WAIT) if entry.state != THIS]
    return tuple(entry for entry in others if (held(listing, entry.uid), entry.moment, entry.uid) < own_position)


def describe(entry: Entry, listing: Listing) -> str:
    """Describe the holder of a GPU: `reserved by bob until 14:30`, `taken by a run of bob`, `taken by project_7`."""
    if entry.kind == HOLD:
        owner = "you" if listing.is_own(entry) else entry.user
        return f"reserved by {owner} until {until(entry, listing)}"
    return f"taken by {entry.run_id if listing.is_own(entry) else f'a run of {entry.user}'}"


def describe_ahead(ahead: Sequence[Entry]) -> list[str]:
    """Return a list with a text about the waiting runs that come first, or an empty list without such runs.

    An example is `2 waiting runs come first (alice, bob)`.
    """
    users = ", ".join(dict.fromkeys(entry.user for entry in ahead))
    verb = "comes" if len(ahead) == 1 else "come"
    return [f"{counted(len(ahead), 'waiting run')} {verb} first ({users})"] if ahead else []


def until(entry: Entry, listing: Listing) -> str:
    """Return the end of a reservation in the local time of this machine, whose clock may differ from the target's."""
    end, now = time.localtime(time.time() + entry.moment - listing.now), time.localtime()
    if end[:3] == now[:3]:
        return time.strftime("%H:%M", end)
    # After six days, the weekday may be that of today.
    return time.strftime("%a %H:%M" if entry.moment - listing.now < 6 * 86400 else "%Y-%m-%d %H:%M", end)
