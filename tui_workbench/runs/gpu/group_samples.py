"""Read the GPU samples of all members of a group as the samples of one run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from tui_workbench.core.errors import TargetUnreachable
from tui_workbench.core.model import RunSpec
from tui_workbench.runs.gpu.owners import Owners
from tui_workbench.targets.gpu.activity import file_mark
from tui_workbench.targets.gpu.feed import Feed
from tui_workbench.targets.gpu.sample import NODE_STEP, Machine, Note, Sample, Source, join, joined_machine, on_node
from tui_workbench.targets.gpu.vendors import may_have_gpu
from tui_workbench.targets.hosts import contacts
from tui_workbench.targets.ssh.host_for import host_of


def may_use_gpus(part: RunSpec) -> bool:
    """Return True if the part of a run on one member may use GPUs. A member that does not answer may have GPUs.

    Raises ConfigurationError as `host_of` does.
    """
    if not (part.target.can_use_gpus and part.target.kind.has_gpus):
        return False
    try:
        return may_have_gpu(host_of(part.target))
    except TargetUnreachable:
        return True


def files_of_parts(parts: Sequence[RunSpec]) -> str:
    """Return the marks (see `changes.file_mark`) of a run's files on all members, or "" if files cannot be listed.

    Raises TargetUnreachable.
    """
    marks = [file_mark(host_of(part.target), part) for part in parts]
    return " ".join(marks) if all(marks) else ""


class GroupSamples(contextlib.AbstractContextManager["GroupSamples"]):
    """The GPU samples of the members of a group, with the interface of `feed.Feed`.

    The processes of the run have the user OWN. `machine` describes the GPUs of all members that have answered; it is
    None until a member with GPUs or all members have answered. The numbers of a member's GPUs depend on the position of
    the member in the group.
    """

    def __init__(self, spec: RunSpec, parts: Sequence[RunSpec], is_over: Callable[[], bool]) -> None:
        """Read the samples of the members on which `parts` of the run execute.

        Raises StorageError or ConfigurationError.

        Once `is_over` returns True, samples of one member no longer wait for samples of the other members.
        """
        self._is_over = is_over
        self.machine: Machine | None = None
        self.hosts = [host_of(part.target) for part in parts]
        names = [part.target.name for part in spec.parts]
        self._members: dict[int, _Member] = {}
        try:
            for part in parts:
                number = names.index(part.target.name)
                self._members[number] = _Member(number, part)
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for member in self._members.values():
            member.feed.close()

    @property
    def silent_seconds(self) -> float:
        """Seconds since the last line of the member that has been silent the longest; 0.0 without members."""
        return max((member.feed.silent_seconds for member in self._with_gpus.values()), default=0.0)

    @property
    def _with_gpus(self) -> dict[int, _Member]:
        """The members that have GPUs, or have not answered yet."""
        members = self._members.items()
        return {number: member for number, member in members if member.machine is None or member.machine.devices}

    def read(self) -> list[Machine | Sample | Note]:
        """Return the new records. Samples that members took at about the same time are joined. Raises StorageError."""
        is_over = self._is_over()  # before the members are read, so that the last call joins all their samples
        records: list[Machine | Sample | Note] = []
        for member in self._members.values():
            records += member.read()
        machines = [member.machine for member in self._members.values() if member.machine is not None]
        is_complete = len(machines) == len(self._members)
        if machines and (is_complete or any(machine.devices for machine in machines)):
            group_machine = joined_machine(machines)
            if group_machine != self.machine:
                self.machine = group_machine
                records.insert(0, group_machine)
        return [*records, *(sample for sample, _ in join(self._with_gpus, is_last=is_over))]


class _Member(Source):
    """The samples of one member, with the device names and numbers of the group."""

    def __init__(self, number: int, part: RunSpec) -> None:
        super().__init__()
        self.machine: Machine | None = None
        contacts.record(part.target)  # a run of an earlier version of the workbench has no entry
        self.feed = Feed(part.target)
        self._name = part.target.name
        self._first = number * NODE_STEP
        self._owners = Owners(part)

    def read(self) -> list[Note]:
        """Add the new samples to `samples`, set `machine`, and return the new notes."""
        notes = []
        for record in self.feed.read():
            if isinstance(record, Machine):
                devices = tuple(on_node(device, self._first, self._name) for device in record.devices)
                self.machine = record._replace(devices=devices)
            elif isinstance(record, Note):
                number = self._first + record.device if record.device >= 0 else -1
                notes.append(Note(record.time, f"{self._name}: {record.text}", number))
            else:
                sample = self._owners.seen(record)
                on_gpus = (process for process in sample.processes if process.device >= 0)
                readings = tuple(reading._replace(device=self._first + reading.device) for reading in sample.readings)
                processes = tuple(process._replace(device=self._first + process.device) for process in on_gpus)
                self.samples.append(sample._replace(readings=readings, processes=processes))
                self.last = record.time
        return notes
