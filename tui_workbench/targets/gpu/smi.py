"""The GPUs of a machine according to `nvidia-smi`, called by a shell script that leaves no files there.

Two nvidia-smi processes run there while samples are taken, one for devices and one for processes: starting a process
every second would cost too much. Lines of another form (another version or language, half a line) are skipped and
reported once.
"""

from __future__ import annotations

import os
import re
import time

from tui_workbench.core.waiting import wait_ready
from tui_workbench.targets.gpu.sample import FIRST_NAMESPACE, Device, Machine, Note, Owner, Process, Reading, Sample
from tui_workbench.targets.hosts.host import READ_SIZE, ConnectionLost, Host, HostProcess

# Seconds without output after which nvidia-smi counts as hanging; a busy machine may need a few.
SILENCE_SECONDS = 10.0
# Timeout of the first answer: without persistence mode the driver wakes every device for it.
FIRST_SECONDS = 60.0
_TOGETHER = 0.5
_STALE = 2.5

_DEVICE = ("index", "uuid", "name", "memory.total", "power.limit", "driver_version", "mig.mode.current")
_READING = (
    "index", "utilization.gpu", "memory.used", "power.draw", "temperature.gpu", "clocks.current.sm",
    "clocks.current.memory", "clocks_throttle_reasons.active", "ecc.errors.uncorrected.volatile.total",
)  # fmt: skip
_RUNNING = ("gpu_uuid", "used_memory", "pid")
_INDEX, _UUID = _DEVICE[:2]

_UNKNOWN_FIELD = re.compile(r'Field "([^"]+)" is not a valid field')

PRESENT = """\
PATH=$PATH:/usr/bin:/usr/local/bin:/usr/lib/wsl/lib
command -v nvidia-smi >/dev/null 2>&1
"""
"""Exits with 0 if nvidia-smi is installed."""

# $1 fields of a device, $2 of its readings, $3 of its processes (the process id last). The first letter of each line is
# its kind. `stdbuf`, where installed, prevents that lines are held back in the buffer of a pipe.
_WATCH = """\
PATH=$PATH:/usr/bin:/usr/local/bin:/usr/lib/wsl/lib
export LC_ALL=C
form=--format=csv,noheader,nounits known=' ' seen=0
lines=$(command -v stdbuf) && lines="$lines -oL"
mark() { while IFS= read -r text; do printf '%s%s\\n' "$1" "$text"; done; }
owner() {
    stat= name= user=
    { read -r stat </proc/"$1"/stat; } 2>/dev/null || return 0
    { read -r name </proc/"$1"/comm; } 2>/dev/null
    run=$( { tr '\\0' '\\n' </proc/"$1"/environ | sed -n 's/^WORKBENCH_RUN_ID=//p' | head -n 1; } 2>/dev/null)
    box=$(grep -oE '[0-9a-f]{64}' /proc/"$1"/cgroup 2>/dev/null | head -n 1)
    user=$(stat -c %U /proc/"$1" 2>/dev/null)
    pid=$1
    set -- ${stat##*)}
    printf 'o%s\\t%s\\t%s\\t%s\\t%s\\t%s\\n' "$pid" "$user" "$name" "$run" "$box" "$4"
}
processes() {
    while IFS= read -r text; do
        pid=${text##*, }
        case $pid in '' | *[!0-9]*) printf 'e%s\\n' "$text"; continue ;; esac
        # Ask again from time to time, because process ids are reused.
        seen=$((seen + 1))
        [ $seen -gt 120 ] && seen=0 known=' '
        case $known in *" $pid "*) ;; *) owner "$pid"; known="$known$pid " ;; esac
        printf 'p%s\\n' "$text"
    done
}
nvidia-smi --query-gpu="$1" $form 2>&1 | mark m
printf 'c%s\\n' "$(nvidia-smi 2>/dev/null | sed -n 's/.*CUDA Version: *\\([0-9.]*\\).*/\\1/p')"
nvidia-smi -L 2>/dev/null | mark l
printf 'n%s\\n' "$(readlink /proc/self/ns/pid)"
echo .
read -r go || exit 0
while :; do
    $lines nvidia-smi --query-gpu="$2" $form -l 1 2>&1 | mark g
    echo x
    sleep 5
done &
while :; do
    $lines nvidia-smi --query-compute-apps="$3" $form -l 1 2>&1 | processes
    sleep 5
done &
cat >/dev/null
trap '' TERM
kill 0
"""


class Smi:
    """The running script on the machine. Raises TargetUnreachable."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._fields = {"m": _DEVICE, "g": _READING, "p": _RUNNING}
        self._rest = b""
        self._index_of: dict[str, int] = {}
        self._owners: dict[int, Owner] = {}
        self._readings: dict[int, Reading] = {}
        self._processes: list[Process] = []
        self._processes_at = 0.0
        self._lost: set[int] = set()
        self._heard = time.monotonic()
        self._complaint = ""
        self._count = 0
        self._process = self._open()

    def machine(self) -> Machine:
        """Return the machine's GPUs, and start sampling them for `look`. Raises TargetUnreachable."""
        while True:
            lines = self._first_lines()
            if not self._drop_unknown(lines, "m"):
                break
            self._process.close()
            self._process = self._open()
        machine = self._machine(lines)
        if machine.devices:
            os.write(self._process.stdin, b"go\n")
        self._count = len(machine.devices)
        self._index_of = {device.uuid: device.number for device in machine.devices}
        self._index_of |= {part: device.number for device in machine.devices for part in device.slices}
        self._heard = time.monotonic()
        return machine

    def look(self, seconds: float) -> list[Sample | Note]:
        """Return the records that arrive within `seconds`. Raises TargetUnreachable when the connection breaks."""
        found: list[Sample | Note] = []
        if wait_ready([self._process.stdout], timeout=seconds):
            data = os.read(self._process.stdout, READ_SIZE)
            if not data:
                raise ConnectionLost(f"the connection to {self._host.label} was lost while monitoring its GPUs")
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                found += self._take(line.decode("utf-8", "replace"))
        silence = time.monotonic() - self._heard
        if silence > SILENCE_SECONDS:
            found += self._complain("nvidia-smi does not answer")
        return found

    def close(self) -> None:
        self._process.close()

    def _open(self) -> HostProcess:
        words = [",".join(self._fields[kind]) for kind in "mgp"]
        self._rest = b""
        return self._host.open(["sh", "-c", _WATCH, "sh", *words])

    def _first_lines(self) -> list[str]:
        deadline = time.monotonic() + FIRST_SECONDS
        while b"\n.\n" not in self._rest:
            if not wait_ready([self._process.stdout], timeout=max(0.0, deadline - time.monotonic())):
                return [f"mnvidia-smi did not answer within {FIRST_SECONDS:g} s"]
            data = os.read(self._process.stdout, READ_SIZE)
            if not data:
                raise ConnectionLost(f"the connection to {self._host.label} was lost while searching for GPUs")
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\n.\n")
        return text.decode("utf-8", "replace").split("\n")

    def _drop_unknown(self, lines: list[str], kind: str) -> bool:
        """Remove a field that this nvidia-smi does not know. Return True if a line names one."""
        for line in lines:
            unknown = _UNKNOWN_FIELD.search(line)
            if unknown and unknown.group(1) in self._fields[kind]:
                self._fields[kind] = tuple(field for field in self._fields[kind] if field != unknown.group(1))
                return True
        return False

    def _machine(self, lines: list[str]) -> Machine:
        devices, driver, said = [], "", ""
        slices = _slices([line[1:] for line in lines if line[:1] == "l"])
        for line in (line[1:] for line in lines if line[:1] == "m"):
            row = self._row("m", line)
            index = _number(row.get(_INDEX, ""))
            if index is None or not row.get(_UUID):
                said = said or ("" if line.endswith("not found") else line.strip())
                continue
            driver = row.get("driver_version", "")
            parts = slices.get(row[_UUID], ())
            if row.get("mig.mode.current") == "Enabled":
                parts = parts or ("MIG",)
            memory, limit = _number(row.get("memory.total", "")), _number(row.get("power.limit", ""))
            devices.append(Device(int(index), row[_UUID], row.get("name", "GPU"), memory, limit, parts))
        others = {line[:1]: line[1:] for line in lines if line[:1] in ("c", "n")}
        problem = "" if devices else said or "nvidia-smi not found"
        hides = others.get("n", "") not in ("", FIRST_NAMESPACE)
        return Machine(tuple(devices), driver, others.get("c", ""), "nvidia-smi", problem, hides)

    def _row(self, kind: str, text: str) -> dict[str, str]:
        cells = [cell.strip() for cell in text.split(",")]
        fields = self._fields[kind]
        return dict(zip(fields, cells, strict=True)) if len(cells) == len(fields) else {}

    def _take(self, line: str) -> list[Sample | Note]:
        kind, text = line[:1], line[1:]
        if kind == "g":
            return self._take_reading(text)
        if kind == "p":
            self._take_process(text)
        elif kind == "o":
            self._take_owner(text)
        elif kind == "e" and self._drop_unknown([text], "p"):
            self._reopen()
        elif kind == "x":
            return self._complain("nvidia-smi ended")
        return []

    def _take_reading(self, text: str) -> list[Sample | Note]:
        row = self._row("g", text)
        index = _number(row.get(_INDEX, ""))
        if index is None:
            if self._drop_unknown([text], "g"):
                self._reopen()
                return []
            return self._complain(text.strip()) if text.strip() else []
        found: list[Sample | Note] = []
        if int(index) in self._readings:
            found.append(self._sample())
        self._heard, self._complaint = time.monotonic(), ""
        values = [_number(row.get(field, "")) for field in _READING[1:]]
        values[6:] = [None if value is None else int(value) for value in values[6:]]
        if any(value is not None for value in values[:4]):
            self._readings[int(index)] = Reading(int(index), *values)  # type: ignore[arg-type]
            self._lost.discard(int(index))
        elif int(index) not in self._lost:
            self._lost.add(int(index))
            found.append(Note(time.time(), f"GPU {index:.0f} stopped responding: {text.strip()}", int(index)))
        if len(self._readings) >= self._count - len(self._lost):
            found.append(self._sample())
        return found

    def _take_process(self, text: str) -> None:
        row = self._row("p", text)
        pid = _number(row.get("pid", ""))
        if pid is None:
            return
        now = time.monotonic()
        if now - self._processes_at > _TOGETHER:
            self._processes, self._processes_at = [], now
        index = self._index_of.get(row.get("gpu_uuid", ""), -1)
        owner = self._owners.get(int(pid), Owner())
        self._processes.append(Process(int(pid), index, _number(row.get("used_memory", "")), None, *owner))

    def _take_owner(self, text: str) -> None:
        cells = text.split("\t")
        if len(cells) == 6 and cells[0].isdigit():
            session = int(cells[5]) if cells[5].isdigit() else 0
            user, name, run, container = cells[1:5]
            self._owners[int(cells[0])] = Owner(user, name, run, container, session)

    def _sample(self) -> Sample:
        readings = tuple(self._readings[index] for index in sorted(self._readings))
        self._readings = {}
        fresh = time.monotonic() - self._processes_at < _STALE
        return Sample(time.time(), readings, tuple(self._processes) if fresh else ())

    def _complain(self, text: str) -> list[Sample | Note]:
        """Return a note, unless there was one since the last reading."""
        if self._complaint:
            return []
        self._complaint = text
        return [Note(time.time(), text)]

    def _reopen(self) -> None:
        self._process.close()
        self._process = self._open()
        self._first_lines()
        os.write(self._process.stdin, b"go\n")


def _slices(lines: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the ids of MIG slices by the id of their device, from the output of `nvidia-smi -L`."""
    found: dict[str, tuple[str, ...]] = {}
    device = ""
    for line in lines:
        named = re.search(r"UUID: ([^)\s]+)\)", line)
        if named and line.startswith("GPU "):
            device = named.group(1)
        elif named and device:
            found[device] = (*found.get(device, ()), named.group(1))
    return found


def _number(text: str) -> float | None:
    """Parse a number of nvidia-smi; None for `[N/A]`, `[Not Supported]` and other text."""
    text = text.strip()
    try:
        return float(int(text, 16)) if text[:2] in ("0x", "0X") else float(text)
    except ValueError:
        return None
