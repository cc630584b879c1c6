"""The choice and reservation of GPUs for a run; no two runs of a user get the same free GPU.

A GPU is free if no process computes on it and no other run of this user has reserved it. A reservation is a link
`gpus/ID` in the user's `.workbench-tui` folder on the machine, created under a lock, that points to the run's
directory. A reservation holds until the run's `exit` file is written or its directory is removed. No process has to
keep it, and the same run can reserve the GPU again. Runs of other users are detected by their processes.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.core.files import read_below, write_below
from tui_workbench.core.model import ComputeTarget, RunSpec
from tui_workbench.core.plaintext import counted
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.gpu.vendors import AMD, NVIDIA, SMI, VISIBLE, vendor_of
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.hosts.host_layout import HostLayout

ORDER = "CUDA_DEVICE_ORDER"
CHOSEN = "gpus"  # the file in a run's directory that lists the GPUs of the run, one per line: number and ID
LARGEST_CHOSEN = 1 << 16

ALL, FREE, NONE = "all", "free", "0"

SECONDS = 90.0  # timeout; without persistence mode, the driver wakes every device before it answers
# A GPU with more memory in use is not free, even if its processes are hidden (in a container).
IN_USE_MIB = 1024

# $1 the folder of links, $2 the directory of this run, $3 the number of GPUs wanted, then the IDs that may be taken.
# Prints `ID` for each GPU that this run got, and `ID holder` for each that another run holds.
_TAKE = """\
folder=$1 run=$2 wanted=$3
shift 3
umask 077
mkdir -p -- "$folder" || exit
exec 9>"$folder/lock" || exit
command -v flock >/dev/null 2>&1 && { flock -w 60 9 || exit; }
taken= others=
# Keep the GPUs that this run has already.
for id in "$@"; do
    if [ "$(readlink "$folder/$id")" = "$run" ] && [ "$wanted" -gt 0 ]; then
        wanted=$((wanted - 1))
        taken="$taken $id"
    else
        others="$others $id"
    fi
done
for id in $others; do
    link=$folder/$id
    holder=$(readlink "$link") || holder=
    if [ -n "$holder" ] && [ "$holder" != "$run" ]; then
        if [ -d "$holder" ] && ! grep -q '[0-9]' "$holder/exit" 2>/dev/null; then
            printf '%s %s\\n' "$id" "$holder"
            continue
        fi
        rm -f -- "$link"
    fi
    if [ "$wanted" -gt 0 ]; then
        ln -sfn -- "$run" "$link" || exit
        wanted=$((wanted - 1))
        taken="$taken $id"
    fi
done
if [ "$wanted" -gt 0 ]; then
    for id in $taken; do rm -f -- "$folder/$id"; done
    exit 0
fi
for id in $taken; do printf '%s\\n' "$id"; done
"""

_RELEASE = """\
for link in "$1"/*; do [ "$(readlink "$link")" = "$2" ] && rm -f -- "$link"; done
exit 0
"""


class ChosenGpu(NamedTuple):
    """A GPU of a run: its number in the tool of its vendor (-1 for a MIG slice) and its ID."""

    number: int
    uuid: str
    hip: str = ""  # the number of an AMD GPU for HIP; "" for other GPUs


class _GpuState(NamedTuple):
    number: int
    uuid: str
    used: float
    processes: int
    hip: str = ""

    @property
    def chosen(self) -> ChosenGpu:
        return ChosenGpu(self.number, self.uuid, self.hip)


def chooses(target: ComputeTarget) -> bool:
    """Return True if GPUs are chosen when a run starts; otherwise, the run gets all GPUs or none."""
    return target.gpus not in ("", ALL, NONE)


def wanted_count(target: ComputeTarget) -> int:
    """Return the number of free GPUs that a run wants; 0 if it wants specific ones, all or none."""
    return 1 if target.gpus == FREE else int(target.gpus) if target.gpus.isdigit() else 0


def describe(target: ComputeTarget) -> str:
    """Return the title of the plan's step that chooses GPUs."""
    count = wanted_count(target)
    if count:
        return "take one free GPU" if count == 1 else f"take {count} free GPUs"
    return f"use the GPUs {', '.join(target.named_gpus)}"


def take(host: Host, spec: RunSpec) -> tuple[ChosenGpu, ...]:
    """Choose the GPUs of the run, list them in its file CHOSEN, and return them.

    Free GPUs are reserved, and the run keeps those that it has already reserved. GPUs that `gpus` names are not
    reserved. Raises ConfigurationError if a named GPU does not exist, WorkbenchError if not enough are free, and
    TargetUnreachable.
    """
    target, directory = spec.target, _directory(host, spec)
    seen, slices = _query(host, target)
    count = wanted_count(target)
    if not count:
        gpus = _named(target, seen, slices, host.label)
    else:
        # If the run has started, the processes on its GPUs are its own.
        started = supervisor.read_supervisor(directory) if host.is_local else None
        free = [each for each in seen if started is not None or (not each.processes and each.used < IN_USE_MIB)]
        gpus = _reserve(host, directory, count, free, seen, target)
    write_below(spec.run_directory, CHOSEN, "".join(f"{each.number} {each.uuid}\n" for each in gpus).encode())
    return gpus


def named(host: Host, target: ComputeTarget) -> tuple[ChosenGpu, ...]:
    """Return the GPUs that a list in `gpus` names, without a reservation; empty for other values.

    Raises ConfigurationError if a named GPU does not exist, WorkbenchError and TargetUnreachable.
    """
    return _named(target, *_query(host, target), host.label) if target.named_gpus else ()


def named_variables(host: Host, spec: RunSpec) -> dict[str, str]:
    """Return the variables that restrict the run to the GPUs that its target names. Raises the errors of `named`."""
    return variables(named(host, spec.target), spec.run_configuration.environment_variables)


def release(host: Host, spec: RunSpec) -> None:
    """Release the GPUs that the run has reserved. Raises TargetUnreachable."""
    host.run(["sh", "-c", _RELEASE, "sh", _folder(host), _directory(host, spec)])


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
    if any(each.hip for each in gpus):
        is_set = any(name in own for name in AMD.visible)
        return {} if is_set else {AMD.visible[0]: ",".join(each.hip for each in gpus)}
    (visible,) = NVIDIA.visible
    if visible in own:
        return {}
    if all(each.number >= 0 for each in gpus):
        return {visible: ",".join(str(each.number) for each in gpus), ORDER: "PCI_BUS_ID"}
    return {visible: ",".join(each.uuid for each in gpus)}


def hidden(target: ComputeTarget, own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that hide every GPU from a script with `gpus: 0`; empty for other settings.

    Also empty if the run's own variables `own` select GPUs.
    """
    if target.gpus != NONE or any(name in own for name in VISIBLE):
        return {}
    return {vendor.visible[0]: "-1" for vendor in (NVIDIA, AMD)}


def _directory(host: Host, spec: RunSpec) -> str:
    """Return the directory of the run on the host."""
    return spec.run_directory if host.is_local else HostLayout(host.home()).run(spec.run_id)


def _folder(host: Host) -> str:
    # Runs that are started on the machine and over SSH share this folder.
    home = os.path.expanduser("~/.workbench-tui") if host.is_local else host.home()
    return posixpath.join(home, "gpus")


def _query(host: Host, target: ComputeTarget) -> tuple[list[_GpuState], list[str]]:
    """Return the state of each GPU, and the IDs of MIG slices."""
    form = "--format=csv,noheader,nounits"
    script = f"""\
{SMI}
smi --query-gpu=index,uuid,memory.used {form} || exit
echo .
smi --query-compute-apps=gpu_uuid,pid {form} || exit
echo .
smi -L
"""
    done = host.run(["sh", "-c", script], timeout=SECONDS)
    devices, _, rest = done.stdout.decode("utf-8", "replace").partition("\n.\n")
    if done.code != 0 or not rest:
        said = devices.strip().split("\n")[-1] or done.complaint
        raise WorkbenchError(
            f"cannot choose GPUs on {host.label}: {said}",
            remedy=f"Run `{vendor_of(host).tool}` there to check the driver, or set `gpus: all` to use every GPU.",
            file=target.path,
            line=line_of_key(target.path, CHOSEN),
        )
    # Without processes, the two dots follow each other directly.
    processes, _, listed = f"\n{rest}".partition("\n.\n")
    busy = [line.split(",")[0].strip() for line in processes.split("\n")]
    hip = dict(re.findall(r"^GPU (\d+): .* HIP (\S+)$", listed, re.MULTILINE))
    seen = []
    for line in devices.split("\n"):
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 3 and cells[0].isdigit():
            used = float(cells[2]) if cells[2].replace(".", "").isdigit() else 0.0
            seen.append(_GpuState(int(cells[0]), cells[1], used, busy.count(cells[1]), hip.get(cells[0], "")))
    slices = [part.partition(")")[0] for part in listed.split("UUID: ") if part.startswith("MIG-")]
    return seen, slices


def _named(
    target: ComputeTarget, seen: Sequence[_GpuState], slices: Sequence[str], label: str
) -> tuple[ChosenGpu, ...]:
    found = []
    for word in target.named_gpus:
        match = next((each for each in seen if word in (str(each.number), each.uuid)), None)
        if match is not None:
            found.append(match.chosen)
        elif word in slices:
            found.append(ChosenGpu(-1, word))
        else:
            there = ", ".join(f"GPU {each.number} ({each.uuid})" for each in seen)
            raise ConfigurationError(
                f"gpus lists '{word}', but {label} has {there or 'no GPU'}",
                remedy="Use the numbers or IDs that `nvidia-smi -L` or `amd-smi list` prints there.",
                file=target.path,
                line=line_of_key(target.path, CHOSEN),
            )
    return tuple(found)


def _reserve(
    host: Host, directory: str, count: int, free: Sequence[_GpuState], seen: Sequence[_GpuState], target: ComputeTarget
) -> tuple[ChosenGpu, ...]:
    words = ["sh", "-c", _TAKE, "sh", _folder(host), directory, str(count), *(each.uuid for each in free)]
    done = host.check(words, timeout=SECONDS)
    rows = [line.partition(" ") for line in done.text.split("\n") if line]
    taken = {uuid for uuid, _, holder in rows if not holder}
    if len(taken) == count:
        return tuple(each.chosen for each in free if each.uuid in taken)
    holders = {uuid: posixpath.basename(holder) for uuid, _, holder in rows if holder}
    said = [_occupied(each, holders) for each in seen]
    raise WorkbenchError(
        f"{host.label} has fewer than {counted(count, 'free GPU')}: "
        f"{'; '.join(filter(None, said)) or f'{len(seen)} in total'}",
        remedy="Wait until enough GPUs are free, request fewer GPUs, or name GPUs in `gpus`.",
        file=target.path,
        line=line_of_key(target.path, CHOSEN),
    )


def _occupied(device: _GpuState, holders: Mapping[str, str]) -> str:
    if device.uuid in holders:
        return f"GPU {device.number} is taken by {holders[device.uuid]}"
    if device.processes:
        return f"GPU {device.number} has {counted(device.processes, 'process')} on it"
    return f"GPU {device.number} has {device.used:.0f} MiB in use" if device.used >= IN_USE_MIB else ""
