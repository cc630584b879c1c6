"""Which GPUs of a machine a run gets, and that no two runs of a user get the same free one.

A free GPU is one that no process of anybody computes on and that no other run of this user has taken. Taking is a link
`gpus/ID` in our folder on that machine, made under a lock there, which leads to the run's directory; it stands until
the run is over, which its `exit` file tells, or its folder is gone. So nothing has to live for it, and it can be taken
again by the same run. Other users' runs are seen as soon as their processes are.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.core.files import read_below, write_below
from tui_workbench.core.model import ComputeTarget, RunSpec
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.hosts.host_layout import HostLayout

VISIBLE, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
CHOSEN = "gpus"
"""The file in a run's directory that names the devices it was given, a line each: number and id."""

LARGEST_CHOSEN = 1 << 16

ALL, FREE, NONE = "all", "free", "0"

SECONDS = 90.0
"""Without persistence mode a driver wakes every device before it answers."""

IN_USE_MIB = 1024
"""A device with more than this in use is none that is free, even where its processes are hidden (in a container)."""

# $1 the folder of links, $2 this run's directory there, $3 how many are wanted, then the ids that may be taken.
# Prints a line for each that is now this run's: `ID`; or for those that are not: `ID holder`.
_TAKE = """\
folder=$1 run=$2 wanted=$3
shift 3
umask 077
mkdir -p -- "$folder" || exit
exec 9>"$folder/lock" || exit
command -v flock >/dev/null 2>&1 && { flock -w 60 9 || exit; }
taken= others=
# What it has already stays its own.
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


class Given(NamedTuple):
    """A device that a run was given: its number as nvidia-smi counts, and its id; a MIG slice has no number (-1)."""

    number: int
    uuid: str


class _Seen(NamedTuple):
    number: int
    uuid: str
    used: float
    processes: int


def chooses(target: ComputeTarget) -> bool:
    """True when devices are to be chosen as a run starts; otherwise it gets all or none of them."""
    return target.gpus not in ("", ALL, NONE)


def wanted_count(target: ComputeTarget) -> int:
    """How many free ones a run wants; 0 when it wants certain ones, all or none."""
    return 1 if target.gpus == FREE else int(target.gpus) if target.gpus.isdigit() else 0


def describe(target: ComputeTarget) -> str:
    """What a plan says of it."""
    count = wanted_count(target)
    if count:
        return "take one free GPU" if count == 1 else f"take {count} free GPUs"
    return f"give it the GPUs {target.gpus[1:-1]}"


def take(host: Host, spec: RunSpec, directory: str) -> tuple[Given, ...]:
    """The devices that the run gets, taken for it. `directory` is its directory on the host.

    Raises ConfigurationError for devices that are not there, WorkbenchError when not enough are free, and
    TargetUnreachable.
    """
    target = spec.target
    seen, slices = _look(host, target)
    count = wanted_count(target)
    if not count:
        given = _named(target, seen, slices, host.label)
    else:
        # A run that was started has what it has, and is on it.
        started = supervisor.read_supervisor(directory) if host.is_local else None
        free = [each for each in seen if started is not None or (not each.processes and each.used < IN_USE_MIB)]
        given = _reserve(host, directory, count, free, seen, target)
    write_below(spec.run_directory, CHOSEN, "".join(f"{each.number} {each.uuid}\n" for each in given).encode())
    return given


def release(host: Host, spec: RunSpec) -> None:
    """Let others have what the run took. Raises TargetUnreachable."""
    directory = spec.run_directory if host.is_local else HostLayout(host.home()).run(spec.run_id)
    host.run(["sh", "-c", _RELEASE, "sh", _folder(host), directory])


def chosen(run_directory: str) -> tuple[Given, ...]:
    """What the run was given; empty when it was not chosen for."""
    try:
        text = read_below(run_directory, CHOSEN, LARGEST_CHOSEN).decode("utf-8", "replace")
        rows = [line.split() for line in text.splitlines()]
    except OSError:
        return ()
    return tuple(Given(int(row[0]), row[1]) for row in rows if len(row) == 2 and row[0].lstrip("-").isdigit())


def variables(given: Sequence[Given], own: Mapping[str, str]) -> dict[str, str]:
    """What a script on the machine itself is told; its run configuration's `own` variables win over that."""
    if VISIBLE in own:
        return {}
    if all(each.number >= 0 for each in given):
        return {VISIBLE: ",".join(str(each.number) for each in given), ORDER: "PCI_BUS_ID"}
    return {VISIBLE: ",".join(each.uuid for each in given)}


def hidden(target: ComputeTarget, own: Mapping[str, str]) -> dict[str, str]:
    """What hides every GPU from a script that is to have none."""
    return {VISIBLE: "-1"} if target.gpus == NONE and VISIBLE not in own else {}


def _folder(host: Host) -> str:
    # One folder, whether a run comes from the machine itself or over SSH from another.
    home = os.path.expanduser("~/.workbench-tui") if host.is_local else host.home()
    return posixpath.join(home, "gpus")


def _look(host: Host, target: ComputeTarget) -> tuple[list[_Seen], list[str]]:
    """The devices with what is on them, and the ids of MIG slices."""
    form = "--format=csv,noheader,nounits"
    script = f"""\
PATH=$PATH:/usr/bin:/usr/local/bin:/usr/lib/wsl/lib
export LC_ALL=C
nvidia-smi --query-gpu=index,uuid,memory.used {form} || exit
echo .
nvidia-smi --query-compute-apps=gpu_uuid,pid {form} || exit
echo .
nvidia-smi -L
"""
    done = host.run(["sh", "-c", script], timeout=SECONDS)
    devices, _, rest = done.stdout.decode("utf-8", "replace").partition("\n.\n")
    if done.code != 0 or not rest:
        said = devices.strip().split("\n")[-1] or done.complaint
        raise WorkbenchError(
            f"no GPU can be chosen on {host.label}: {said}",
            remedy="`nvidia-smi` there says whether the driver works; without `gpus` a run takes what there is.",
            file=target.path,
            line=line_of_key(target.path, CHOSEN),
        )
    # A machine on which nothing computes has nothing between the two full stops.
    processes, _, listed = f"\n{rest}".partition("\n.\n")
    busy = [line.split(",")[0].strip() for line in processes.split("\n")]
    seen = []
    for line in devices.split("\n"):
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 3 and cells[0].isdigit():
            used = float(cells[2]) if cells[2].isdigit() else 0.0
            seen.append(_Seen(int(cells[0]), cells[1], used, busy.count(cells[1])))
    slices = [part.partition(")")[0] for part in listed.split("UUID: ") if part.startswith("MIG-")]
    return seen, slices


def _named(target: ComputeTarget, seen: Sequence[_Seen], slices: Sequence[str], label: str) -> tuple[Given, ...]:
    found = []
    for word in (part.strip() for part in target.gpus.strip("[]").split(",")):
        one = next((each for each in seen if word in (str(each.number), each.uuid)), None)
        if one is not None:
            found.append(Given(one.number, one.uuid))
        elif word in slices:
            found.append(Given(-1, word))
        else:
            there = ", ".join(f"{each.number} ({each.uuid})" for each in seen)
            raise ConfigurationError(
                f"gpus names {word}, and {label} has {there or 'no GPU'}",
                remedy="Name GPUs as `nvidia-smi -L` shows them there.",
                file=target.path,
                line=line_of_key(target.path, CHOSEN),
            )
    return tuple(found)


def _reserve(
    host: Host, directory: str, count: int, free: Sequence[_Seen], seen: Sequence[_Seen], target: ComputeTarget
) -> tuple[Given, ...]:
    words = ["sh", "-c", _TAKE, "sh", _folder(host), directory, str(count), *(each.uuid for each in free)]
    done = host.check(words, timeout=SECONDS)
    rows = [line.partition(" ") for line in done.text.split("\n") if line]
    taken = {uuid for uuid, _, holder in rows if not holder}
    if len(taken) == count:
        return tuple(Given(each.number, each.uuid) for each in free if each.uuid in taken)
    holders = {uuid: posixpath.basename(holder) for uuid, _, holder in rows if holder}
    said = [_occupied(each, holders) for each in seen]
    raise WorkbenchError(
        f"{count} free GPU{'' if count == 1 else 's'} wanted on {host.label}: "
        f"{'; '.join(filter(None, said)) or f'it has {len(seen)}'}",
        remedy="Wait for one of them to end, or name GPUs in `gpus`.",
        file=target.path,
        line=line_of_key(target.path, CHOSEN),
    )


def _occupied(device: _Seen, holders: Mapping[str, str]) -> str:
    if device.uuid in holders:
        return f"GPU {device.number} is taken by {holders[device.uuid]}"
    if device.processes:
        return f"GPU {device.number} has {device.processes} process{'' if device.processes == 1 else 'es'} on it"
    return f"GPU {device.number} has {device.used:.0f} MiB in use" if device.used >= IN_USE_MIB else ""
