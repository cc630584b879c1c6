"""Read the reservations on a machine repeatedly, without blocking the caller."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.waiting import BackgroundCall
from tui_workbench.targets.reservations import order
from tui_workbench.targets.reservations.folder import HOLD, RUN, WAIT, Folder, Listing
from tui_workbench.targets.ssh.host_for import host_of

INTERVAL = 10.0  # seconds between two reads


class HeldGpu(NamedTuple):
    """A reservation of a GPU: the user, and the end in local time ("" for a run, which keeps the GPU until it ends)."""

    user: str
    until: str = ""
    is_own: bool = False

    @property
    def text(self) -> str:
        """A phrase such as `you until 14:30`, `bob until 14:30` or `a run of bob`."""
        if not self.until:
            return "your run" if self.is_own else f"a run of {self.user}"
        return f"{'you' if self.is_own else self.user} until {self.until}"


class Reserved(NamedTuple):
    """The reservations on a machine by the ID of the GPU, and the number of runs that wait for GPUs."""

    gpus: Mapping[str, HeldGpu] = {}
    waiting: int = 0
    problem: str = ""  # why they could not be read


class ReservationWatch:
    """Repeated reads of a target's shared folder. A thread reads, because the machine may answer slowly."""

    def __init__(self, target: ComputeTarget) -> None:
        self._target = target
        self._call: BackgroundCall | None = None
        self._due = 0.0
        self._reserved = Reserved()

    def poll(self) -> Reserved | None:
        """Start a read if it is due. Return the result of a read that has ended since the last call, else None."""
        if self._call is None and time.monotonic() >= self._due:
            self._due = time.monotonic() + INTERVAL  # `refresh` during the read makes another read due
            self._call = BackgroundCall(self._read)
        if self._call is None or not self._call.wait(timeout=0):
            return None
        self.close()
        return self._reserved

    def refresh(self) -> None:
        """Make the next read due at once."""
        self._due = 0.0

    def close(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.close()

    def _read(self) -> None:
        try:
            self._reserved = reserved_of(Folder(host_of(self._target), self._target).read())
        except WorkbenchError as error:
            self._reserved = Reserved(problem=error.message)


def reserved_of(listing: Listing) -> Reserved:
    """Return the reservations in a listing.

    If a GPU has several entries, a user's reservation has precedence over a run, and an older reservation over a newer
    reservation.
    """
    gpus = {entry.gpu: HeldGpu(entry.user, "", listing.is_own(entry)) for entry in listing.of_kind(RUN)}
    for entry in sorted(listing.of_kind(HOLD), key=lambda entry: entry.created, reverse=True):
        gpus[entry.gpu] = HeldGpu(entry.user, order.until(entry, listing), listing.is_own(entry))
    return Reserved(gpus, len(listing.of_kind(WAIT)))
