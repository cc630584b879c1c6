"""Reserve GPUs of a shared machine for a user, for a limited time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tui_workbench.core.errors import ConfigurationError, UsageError, WorkbenchError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.plaintext import counted
from tui_workbench.targets.gpu.choice import GpuState, occupied, query
from tui_workbench.targets.reservations import order
from tui_workbench.targets.reservations.folder import HOLD, LONGEST_HOLD, RUN, WAIT, Entry, Folder, GpusBusy, Listing
from tui_workbench.targets.ssh.host_for import host_of

_UNITS = {"m": 60, "h": 3600, "d": 86400}
_ATTEMPTS = 20  # attempts to change the folder while other users change it

Changes = tuple[list[str], list[str]]
"""Texts of new entries, and names of entries to remove."""


class Holder(NamedTuple):
    """A reservation of a GPU by a user or a run, or a run that waits for GPUs (`gpu` is -1).

    `until` is the end of a user's reservation, as text in local time, and `seconds_left` the time until then.
    """

    gpu: int
    user: str
    kind: str
    until: str
    seconds_left: float
    run_id: str
    wanted: int
    is_own: bool


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as `30m`, `3h`, `1h30m` or `2d`. Raises UsageError."""
    parts = re.findall(r"(\d{1,6})([mhd])", text) if re.fullmatch(r"(\d{1,6}[mhd])+", text, re.ASCII) else []
    seconds = float(sum(int(number) * _UNITS[unit] for number, unit in parts))
    if not 0 < seconds <= LONGEST_HOLD:
        raise UsageError(
            f"{text!r} is not a duration from 1m to {LONGEST_HOLD / 86400:.0f}d",
            remedy="Give minutes, hours or days, such as 30m, 3h, 1h30m or 2d.",
        )
    return seconds


class Holding:
    """The reservations on the machine of a target. Calls can raise WorkbenchError.

    The GPUs are queried once, so use an object for one command only.
    """

    def __init__(self, target: ComputeTarget) -> None:
        """Raises UsageError for a target whose GPUs cannot be reserved, and ConfigurationError."""
        if not target.kind.has_gpus:
            remedy = (
                "Reserve GPUs on the members of the group."
                if target.members
                else "Submit the run without a reservation: the scheduler reserves the GPUs of each job."
                if target.kind.has_scheduler
                else "Use a target of type `remote` or `remotedocker` on the machine with the GPUs."
            )
            raise UsageError(f"GPUs of targets of type {target.type} cannot be reserved", remedy=remedy)
        self._target = target
        self._host = host_of(target)
        self._folder = Folder(self._host, target)
        self._all_gpus: list[GpuState] = []

    @property
    def notice(self) -> str:
        """The reason why only this user's reservations are known, or ""."""
        if self._folder.is_shared:
            return ""
        return f"only your own runs are listed, because `gpuReservations` of {self._target.name} is not set"

    def holders(self) -> list[Holder]:
        """Return all reservations by GPU, and then the waiting runs in their order."""
        numbers, listing = {gpu.uuid: gpu.number for gpu in self._gpus()}, self._folder.read()
        entries = [entry for entry in listing.entries if entry.gpu in numbers or entry.kind == WAIT]

        def position(entry: Entry) -> tuple[bool, int, float, str]:
            if entry.kind == WAIT:
                return True, order.held(listing, entry.uid), entry.moment, entry.user
            return False, numbers[entry.gpu], entry.created, entry.user

        return [_holder(entry, numbers.get(entry.gpu, -1), listing) for entry in sorted(entries, key=position)]

    def reserve(self, seconds: float, count: int = 1, numbers: Sequence[int] = ()) -> list[Holder]:
        """Reserve `count` free GPUs, or the GPUs with these numbers, and return the new reservations."""
        self._require_shared()
        candidates = self._gpus(numbers)
        count = len(set(numbers)) or count

        def decide(listing: Listing) -> Changes:
            held = {entry.gpu for entry in listing.of_kind(HOLD) if listing.is_own(entry)}
            free = [gpu.uuid for gpu in candidates if gpu.is_free and gpu.uuid not in held]
            choice = order.choose(listing, count, free, [gpu.uuid for gpu in self._all_gpus])
            if not choice.gpus:
                raise self._too_few(count, candidates, held, listing, choice.ahead)
            return [f"{HOLD} {gpu} {listing.now + seconds:.0f}" for gpu in choice.gpus], []

        return self._change(decide)

    def extend(self, seconds: float, numbers: Sequence[int] = ()) -> list[Holder]:
        """Extend this user's reservations of these GPUs (by default, all) by `seconds`, and return them."""

        def decide(listing: Listing) -> Changes:
            own = self._own(listing, numbers)
            if max(entry.moment for entry in own) + seconds > listing.now + LONGEST_HOLD:
                raise UsageError(
                    f"a reservation cannot end more than {LONGEST_HOLD / 86400:.0f} days from now",
                    remedy="Extend the reservation by less time now, and again later.",
                )
            # If a GPU has several reservations, the one that ends last is extended.
            ends = {entry.gpu: entry.moment for entry in sorted(own, key=lambda entry: entry.moment)}
            return [f"{HOLD} {gpu} {end + seconds:.0f}" for gpu, end in ends.items()], [entry.name for entry in own]

        return self._change(decide)

    def release(self, numbers: Sequence[int] = ()) -> list[Holder]:
        """End this user's reservations of these GPUs (by default, all), and return them."""
        return self._change(lambda listing: ([], [entry.name for entry in self._own(listing, numbers)]))

    def _change(self, decide: Callable[[Listing], Changes]) -> list[Holder]:
        """Change the folder. Return the new reservations or, without new reservations, the removed reservations."""
        for _ in range(_ATTEMPTS):
            # The folder is not locked meanwhile. If another user has changed it since it was read, decide again.
            listing = self._folder.read()
            add, remove = decide(listing)
            if self._folder.change(listing, add, remove):
                removed = [entry for entry in listing.entries if entry.name in remove]
                new = []
                for text in add:
                    _, gpu, end = text.split(" ")
                    new.append(Entry("", listing.uid, listing.now, "", "", HOLD, gpu=gpu, moment=float(end)))
                numbers = {state.uuid: state.number for state in self._gpus()}
                return [_holder(entry, numbers.get(entry.gpu, -1), listing) for entry in new or removed]
        label = self._host.label
        raise GpusBusy(
            f"the GPU reservations in {self._folder.path} on {label} keep changing", remedy="Try again later."
        )

    def _own(self, listing: Listing, numbers: Sequence[int]) -> list[Entry]:
        """Return this user's reservations of these GPUs, by default all. Raises UsageError if a GPU is not reserved."""
        own = [entry for entry in listing.of_kind(HOLD) if listing.is_own(entry)]
        gpus = {gpu.uuid for gpu in self._gpus(numbers)} if numbers else {entry.gpu for entry in own}
        own = [entry for entry in own if entry.gpu in gpus]
        if not own or len({entry.gpu for entry in own}) < len(gpus):
            missing = f"GPU {', '.join(map(str, numbers))}" if numbers else "a GPU"
            raise UsageError(
                f"you have not reserved {missing} on {self._host.label}",
                remedy=f"See the reservations: `workbench-tui gpu reservations -t {self._target.name}`.",
            )
        return own

    def _gpus(self, numbers: Sequence[int] = ()) -> list[GpuState]:
        """Return the GPUs with these numbers, by default all. Raises UsageError if a GPU does not exist."""
        if not self._all_gpus:
            self._all_gpus, _ = query(self._host, self._target)
        existing = {gpu.number for gpu in self._all_gpus}
        absent = next((number for number in numbers if number not in existing), None)
        if absent is not None:
            raise UsageError(
                f"{self._host.label} has no GPU {absent}",
                remedy=f"See its GPUs: `workbench-tui gpu list -t {self._target.name}`.",
            )
        return [gpu for gpu in self._all_gpus if not numbers or gpu.number in numbers]

    def _require_shared(self) -> None:
        if not self._folder.is_shared:
            raise ConfigurationError(
                f"`gpuReservations` of {self._target.name} is not set, so no other user would see a reservation",
                remedy="Create a folder for all users of the machine, as `workbench-tui gpu reserve --help` shows, and "
                f"set it: `workbench-tui config set {self._target.name}.compute gpuReservations FOLDER`.",
                file=self._target.path,
            )

    def _too_few(
        self, count: int, gpus: Sequence[GpuState], held: set[str], listing: Listing, ahead: Sequence[Entry]
    ) -> WorkbenchError:
        texts = occupied(gpus, listing)
        texts += [f"GPU {gpu.number} is already reserved by you" for gpu in gpus if gpu.uuid in held]
        texts += order.describe_ahead(ahead)
        return WorkbenchError(
            f"{self._host.label} has fewer than {counted(count, 'free GPU')}: "
            f"{'; '.join(texts) or f'{len(gpus)} in total'}",
            remedy="Try again later, or reserve fewer or other GPUs. `workbench-tui gpu extend` extends your own "
            "reservations. Runs with `gpus: free` wait for free GPUs by themselves.",
        )


def _holder(entry: Entry, number: int, listing: Listing) -> Holder:
    is_hold = entry.kind == HOLD
    kind = {HOLD: "reservation", RUN: "run", WAIT: "waiting"}[entry.kind]
    return Holder(
        number,
        entry.user,
        kind,
        order.until(entry, listing) if is_hold else "",
        max(0.0, entry.moment - listing.now) if is_hold else 0.0,
        entry.run_id,
        entry.wanted,
        listing.is_own(entry),
    )
