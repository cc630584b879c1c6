"""The choice and reservation of GPUs for a run; no two runs get the same free GPU.

A GPU is free if no process computes on it and no other run has reserved it. Runs reserve GPUs with entries in a folder
of the user, or in a folder that the users of the machine share (see `reservations`). An entry is valid until the run's
`exit` file is written or the run's directory is removed. No process has to keep an entry, and the same run can reserve
the GPU again. Without a shared folder, runs of other users are detected by their processes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.core.files import read_below, write_below
from tui_workbench.core.model import ComputeTarget, RunSpec
from tui_workbench.core.plaintext import counted
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.gpu.vendors import AMD, NVIDIA, VISIBLE, vendor_of, with_smi
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.hosts.host_layout import HostLayout
from tui_workbench.targets.reservations import order
from tui_workbench.targets.reservations.folder import RUN, THIS, TICKET_SECONDS, WAIT, Entry, Folder, GpusBusy, Listing

ORDER = "CUDA_DEVICE_ORDER"
CHOSEN = "gpus"  # the file in a run's directory that lists the GPUs of the run, one per line: number and ID
LARGEST_CHOSEN = 1 << 16

ALL, FREE, NONE = "all", "free", "0"

SECONDS = 90.0  # timeout; without persistence mode, the driver wakes every device before it answers
# A GPU with more memory in use is not free, even if its processes are hidden (in a container).
IN_USE_MIB = 1024

FOLDER_VARIABLE = "WORKBENCH_GPU_RESERVATIONS"
"""The variable with the shared folder, from which the supervising shell removes the entries of its run at the end."""

_QUERY = with_smi(shell_script("targets/gpu/scripts/query_gpus.sh"))

_ATTEMPTS = 20  # attempts to reserve GPUs while other users change their entries


class ChosenGpu(NamedTuple):
    """A GPU of a run: its number in the tool of its vendor (-1 for a MIG slice) and its ID."""

    number: int
    uuid: str
    hip: str = ""  # the number of an AMD GPU for HIP; "" for other GPUs


class GpuState(NamedTuple):
    """A GPU of a machine: its memory in use in MiB, and the number of processes that compute on it."""

    number: int
    uuid: str
    used: float
    processes: int
    hip: str = ""

    @property
    def is_free(self) -> bool:
        return not self.processes and self.used < IN_USE_MIB

    @property
    def chosen(self) -> ChosenGpu:
        return ChosenGpu(self.number, self.uuid, self.hip)


def chooses(target: ComputeTarget) -> bool:
    """Return True if GPUs are chosen when a run starts; otherwise, the run gets all GPUs or none."""
    return target.gpus not in ("", ALL, NONE)


def wanted_count(target: ComputeTarget) -> int:
    """Return the number of free GPUs that a run wants; 0 if it uses listed GPUs, all GPUs or no GPU."""
    return 1 if target.gpus == FREE else int(target.gpus) if target.gpus.isdigit() else 0


def may_wait(target: ComputeTarget) -> bool:
    """Return True if runs wait in a shared folder until enough GPUs are free."""
    return bool(target.gpu_reservations and wanted_count(target))


def folder_variables(target: ComputeTarget) -> dict[str, str]:
    """Return the variable FOLDER_VARIABLE if runs reserve GPUs in a shared folder, else no variable."""
    return {FOLDER_VARIABLE: target.gpu_reservations} if may_wait(target) else {}


def describe(target: ComputeTarget) -> str:
    """Return the title of the plan's step that chooses GPUs."""
    count = wanted_count(target)
    if count:
        return "take one free GPU" if count == 1 else f"take {count} free GPUs"
    return f"use the GPUs {', '.join(target.named_gpus)}"


def take(host: Host, spec: RunSpec) -> tuple[ChosenGpu, ...]:
    """Choose the GPUs of the run, list them in its file CHOSEN, and return them.

    Free GPUs are reserved, and the run keeps those that it has already reserved. GPUs that `gpus` names are not
    reserved. Raises TargetUnreachable, ConfigurationError if a named GPU does not exist, and WorkbenchError if too few
    GPUs are free (GpusBusy if runs wait in a shared folder).
    """
    target, directory = spec.target, _directory(host, spec)
    states, slices = query(host, target)
    count = wanted_count(target)
    if not count:
        gpus = _named(target, states, slices, host.label)
    else:
        # If the run has started, the processes on its GPUs are its own.
        started = supervisor.read_supervisor(directory) if host.is_local else None
        free = [gpu for gpu in states if started is not None or gpu.is_free]
        if not has_reserved(spec.run_directory):
            write_below(spec.run_directory, CHOSEN, b"")  # even if the call is interrupted, the end of the run releases
        gpus = _reserve(host, directory, count, free, states, target)
    write_below(spec.run_directory, CHOSEN, "".join(f"{gpu.number} {gpu.uuid}\n" for gpu in gpus).encode())
    return gpus


def named(host: Host, target: ComputeTarget) -> tuple[ChosenGpu, ...]:
    """Return the GPUs that `gpus` lists, without reserving them; empty if `gpus` is not a list.

    Raises ConfigurationError if a listed GPU does not exist, TargetUnreachable or another WorkbenchError.
    """
    return _named(target, *query(host, target), host.label) if target.named_gpus else ()


def named_variables(host: Host, spec: RunSpec) -> dict[str, str]:
    """Return the variables that restrict the run to the GPUs that its target names. Raises the errors of `named`."""
    return variables(named(host, spec.target), spec.run_configuration.environment_variables)


def release(host: Host, spec: RunSpec, *, keeps_place: bool = False) -> None:
    """Release the GPUs that the run has reserved and, without `keeps_place`, its place among the waiting runs.

    Raises TargetUnreachable or another WorkbenchError.
    """
    if not wanted_count(spec.target):
        return  # it has reserved none
    folder, directory = Folder(host, spec.target), _directory(host, spec)
    for _ in range(_ATTEMPTS):
        listing = folder.read(directory)
        own = [
            entry.name for entry in listing.entries if entry.state == THIS and not (keeps_place and entry.kind == WAIT)
        ]
        if folder.change(listing, (), own, directory):
            return


def has_reserved(run_directory: str) -> bool:
    """Return True if the run has reserved GPUs, or has tried to."""
    return os.path.lexists(os.path.join(run_directory, CHOSEN))


def chosen(run_directory: str) -> tuple[ChosenGpu, ...]:
    """Return the GPUs that were chosen for the run; empty if none were."""
    try:
        text = read_below(run_directory, CHOSEN, LARGEST_CHOSEN).decode("utf-8", "replace")
        rows = [line.split() for line in text.splitlines()]
    except OSError:
        return ()
    return tuple(ChosenGpu(int(row[0]), row[1]) for row in rows if len(row) == 2 and row[0].lstrip("-").isdigit())


def variables(gpus: Sequence[ChosenGpu], own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that restrict a script to its GPUs.

    The result is empty if no GPUs were chosen, or if the run's own variables `own` restrict the script.
    """
    if not gpus:
        return {}
    if any(gpu.hip for gpu in gpus):
        is_set = any(name in own for name in AMD.visible)
        return {} if is_set else {AMD.visible[0]: ",".join(gpu.hip for gpu in gpus)}
    (visible,) = NVIDIA.visible
    if visible in own:
        return {}
    if all(gpu.number >= 0 for gpu in gpus):
        return {visible: ",".join(str(gpu.number) for gpu in gpus), ORDER: "PCI_BUS_ID"}
    return {visible: ",".join(gpu.uuid for gpu in gpus)}


def hidden(target: ComputeTarget, own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that hide every GPU from a script with `gpus: 0`; empty for other settings.

    Also empty if the run's own variables `own` select GPUs.
    """
    if target.gpus != NONE or any(name in own for name in VISIBLE):
        return {}
    return {vendor.visible[0]: "-1" for vendor in (NVIDIA, AMD)}


def _directory(host: Host, spec: RunSpec) -> str:
    return spec.run_directory if host.is_local else HostLayout(host.home()).run(spec.run_id)


def query(host: Host, target: ComputeTarget) -> tuple[list[GpuState], list[str]]:
    """Return the state of each GPU, and the IDs of MIG slices. Raises TargetUnreachable or another WorkbenchError."""
    done = host.run(["sh", "-c", _QUERY], timeout=SECONDS)
    devices, _, rest = done.stdout.decode("utf-8", "replace").partition("\n.\n")
    if done.code != 0 or not rest:
        message = devices.strip().split("\n")[-1] or done.complaint
        raise WorkbenchError(
            f"cannot query the GPUs of {host.label}: {message}",
            remedy=f"Run `{vendor_of(host).tool}` there to check the driver. With `gpus: all`, runs use every GPU "
            "without this query.",
            file=target.path,
            line=line_of_key(target.path, CHOSEN),
        )
    # Without processes, the two dots follow each other directly.
    processes, _, listed = f"\n{rest}".partition("\n.\n")
    busy = [line.split(",")[0].strip() for line in processes.split("\n")]
    hip = dict(re.findall(r"^GPU (\d+): .* HIP (\S+)$", listed, re.MULTILINE))
    states = []
    for line in devices.split("\n"):
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 3 and cells[0].isdigit():
            used = float(cells[2]) if cells[2].replace(".", "").isdigit() else 0.0
            states.append(GpuState(int(cells[0]), cells[1], used, busy.count(cells[1]), hip.get(cells[0], "")))
    slices = [part.partition(")")[0] for part in listed.split("UUID: ") if part.startswith("MIG-")]
    return states, slices


def _named(
    target: ComputeTarget, states: Sequence[GpuState], slices: Sequence[str], label: str
) -> tuple[ChosenGpu, ...]:
    gpus = []
    for word in target.named_gpus:
        match = next((gpu for gpu in states if word in (str(gpu.number), gpu.uuid)), None)
        if match is not None:
            gpus.append(match.chosen)
        elif word in slices:
            gpus.append(ChosenGpu(-1, word))
        else:
            available = ", ".join(f"GPU {gpu.number} ({gpu.uuid})" for gpu in states)
            raise ConfigurationError(
                f"gpus lists '{word}', but {label} has {available or 'no GPU'}",
                remedy="Use the numbers or IDs that `nvidia-smi -L` or `amd-smi list` prints there.",
                file=target.path,
                line=line_of_key(target.path, CHOSEN),
            )
    return tuple(gpus)


def _reserve(
    host: Host, directory: str, count: int, free: Sequence[GpuState], states: Sequence[GpuState], target: ComputeTarget
) -> tuple[ChosenGpu, ...]:
    folder = Folder(host, target)
    for _ in range(_ATTEMPTS):
        listing = folder.read(directory)
        selection = order.choose(listing, count, [gpu.uuid for gpu in free], [gpu.uuid for gpu in states])
        own = [entry for entry in listing.entries if entry.state == THIS]
        if selection.gpus:
            reserved = {entry.gpu for entry in own if entry.kind == RUN}
            new = [f"{RUN} {gpu} {directory}" for gpu in selection.gpus if gpu not in reserved]
            left = [entry.name for entry in own if entry.gpu not in selection.gpus]
            if folder.change(listing, new, left, directory):
                return tuple(gpu.chosen for gpu in free if gpu.uuid in selection.gpus)
            continue
        waits = folder.is_shared and count <= len(states)
        ticket = [f"{WAIT} {selection.missing} {order.waiting_since(listing):.0f} {directory}"] if waits else []
        if (waits and _is_fresh(own, selection.missing, listing)) or folder.change(
            listing, ticket, [entry.name for entry in own], directory
        ):
            raise _too_few(host, count, states, target, listing, selection.ahead, waits=waits)
    raise GpusBusy(f"the GPU reservations in {folder.path} on {host.label} keep changing", remedy="Try again later.")


def _is_fresh(own: Sequence[Entry], missing: int, listing: Listing) -> bool:
    """Return True if the run has only one entry, which is recent and says that the run waits for `missing` GPUs."""
    tickets = [entry for entry in own if entry.kind == WAIT and entry.wanted == missing]
    return len(own) == 1 and any(listing.now - entry.created < TICKET_SECONDS / 3 for entry in tickets)


def _too_few(
    host: Host,
    count: int,
    states: Sequence[GpuState],
    target: ComputeTarget,
    listing: Listing,
    ahead: Sequence[Entry],
    *,
    waits: bool,
) -> WorkbenchError:
    reasons = "; ".join([*occupied(states, listing), *order.describe_ahead(ahead)])
    if waits:
        return GpusBusy(f"waits for {counted(count, 'free GPU')} on {host.label}: {reasons}")
    return WorkbenchError(
        f"{host.label} has fewer than {counted(count, 'free GPU')}: {reasons or f'{len(states)} in total'}",
        remedy="Wait until enough GPUs are free, request fewer GPUs, or name GPUs in `gpus`.",
        file=target.path,
        line=line_of_key(target.path, CHOSEN),
    )


def occupied(states: Sequence[GpuState], listing: Listing) -> list[str]:
    """Return the reason for each GPU that this run cannot take, such as `GPU 0 is reserved by bob until 14:30`."""
    reasons = []
    for device in states:
        entry = order.holder(listing, device.uuid)
        if entry is not None:
            reasons.append(f"GPU {device.number} is {order.describe(entry, listing)}")
        elif device.processes:
            reasons.append(f"GPU {device.number} has {counted(device.processes, 'process')} on it")
        elif device.used >= IN_USE_MIB:
            reasons.append(f"GPU {device.number} has {device.used:.0f} MiB in use")
    return reasons
