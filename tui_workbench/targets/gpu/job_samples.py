"""GPU samples that the job of a run takes itself, for targets whose scheduler chooses the nodes.

On each node an `sh` script runs nvidia-smi or amd-smi as long as the job runs, and appends its lines to a file in the
run's directory. The file is copied to this machine with the other files of the run. The samples are complete even if
this machine is disconnected for a time; then they arrive later. Nothing is installed on the nodes.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from calendar import timegm
from collections.abc import Callable
from typing import Any, TypeVar

from tui_workbench.core.files import open_below
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.gpu.activity import CHANGES, LOOK_SECONDS, Silence, facts_in
from tui_workbench.targets.gpu.sample import (
    NODE_STEP,
    Device,
    Machine,
    Note,
    Process,
    Reading,
    Sample,
    Source,
    join,
    joined_machine,
    on_node,
)
from tui_workbench.targets.gpu.smi_lines import DEVICE, NEW_THROTTLE, READING, RUNNING, THROTTLE, SmiLines
from tui_workbench.targets.gpu.vendors import with_smi
from tui_workbench.targets.hosts.supervisor import GPU

_Value = TypeVar("_Value", Reading, Process)

SILENCE_SECONDS = 10.0
"""Seconds without a reading after which the tool counts as hanging."""

_MOST_BYTES = 1 << 20  # maximum number of bytes to read from a file at once
_MOST_LINE = 1 << 16

_ASSIGNMENTS = (
    f"device_fields={','.join(DEVICE)} reading_fields={','.join(READING)} process_fields={','.join(RUNNING)} "
    f"throttle={THROTTLE} new_throttle={NEW_THROTTLE} look_seconds={LOOK_SECONDS:.0f}\n"
)

SAMPLER = with_smi(CHANGES + _ASSIGNMENTS + shell_script("targets/gpu/scripts/sample_job.sh"))
"""A script that samples the GPUs of a job on one of its nodes. $1: the run's directory, $2: the run's ID."""


class JobSamples(contextlib.AbstractContextManager["JobSamples"]):
    """The samples in a run's directory, with the interface of `feed.Feed`.

    `machine` describes the GPUs of the job, on all nodes whose files have arrived; None before the first file.
    """

    silent_seconds = 0.0

    def __init__(self, directory: str, is_over: Callable[[], bool]) -> None:
        """`is_over` returns True once all files have arrived."""
        self._directory = directory
        self._is_over = is_over
        self._nodes: dict[int, _Node] = {}
        self._quiet: float | None = None
        self.machine: Machine | None = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for node in self._nodes.values():
            node.close()

    def read(self) -> list[Machine | Sample | Note]:
        """Return the records that have arrived since the last call. Raises OSError."""
        is_over = self._is_over()
        self._find()
        records: list[Machine | Sample | Note] = []
        for node in self._nodes.values():
            while lines := node.read():
                for line in lines:
                    records += node.take(line)
                if node.is_new:
                    node.is_new = False
                    nodes = [node for _, node in sorted(self._nodes.items())]
                    self.machine = joined_machine([node.machine for node in nodes if node.machine is not None])
                    records.append(self.machine)
                if not is_over:
                    break
        return [*records, *self._together(is_last=is_over)]

    def take_facts(self) -> dict[str, Any]:
        """Return the facts about the run's processes that have arrived since the last call."""
        lines = [line for node in self._nodes.values() for line in node.facts]
        for node in self._nodes.values():
            node.facts.clear()
        return facts_in(lines)

    def _find(self) -> None:
        """Open the nodes' files that are not open yet."""
        try:
            names = os.listdir(os.path.join(self._directory, GPU))
        except OSError:
            return
        for name in sorted(names):
            if name.isascii() and name.isdigit() and len(name) <= 4 and int(name) not in self._nodes:
                self._nodes[int(name)] = _Node(int(name), open_below(self._directory, f"{GPU}/{name}"))

    def _together(self, *, is_last: bool) -> list[Sample]:
        """Return the samples of all nodes. Samples of different nodes at about the same time become one sample."""
        samples = []
        for sample, parts in join(self._nodes, is_last=is_last):
            if 0 in parts:  # only the first node looks at the run's files; it may have no sample now
                self._quiet = parts[0].quiet
            samples.append(sample._replace(quiet=self._quiet))
        return samples


class _Node(Source):
    """The samples file of one node."""

    def __init__(self, number: int, descriptor: int) -> None:
        super().__init__()
        self.machine: Machine | None = None
        self.is_new = False  # True until `JobSamples.read` has returned the new description of the machine
        self.facts: list[str] = []
        self._first = number * NODE_STEP
        self._descriptor = descriptor
        self._rest = b""
        self._header: list[str] = []
        self._has_header = False
        self._now = 0.0
        self._devices: frozenset[int] = frozenset()
        self._silence = Silence()
        self._looked = 0.0  # the time of the last look at the files
        self._lines = self._new_lines()

    def close(self) -> None:
        os.close(self._descriptor)

    def read(self) -> list[str]:
        """Return the complete lines in the next `_MOST_BYTES` of the file."""
        data = os.read(self._descriptor, _MOST_BYTES) if stat.S_ISREG(os.fstat(self._descriptor).st_mode) else b""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _MOST_LINE:
            self._rest = b""
        return [line.decode("utf-8", "replace") for line in lines]

    def take(self, line: str) -> list[Note]:
        """Process a line, and return the notes in it. Samples are added to `samples`."""
        kind, text = line[:1], line[1:]
        if kind == "h":
            # The job has started, perhaps again.
            self._header, self._has_header, self._lines = [], False, self._new_lines()
            self._silence = Silence()
        if not self._has_header:
            self._take_header(line)
            return []
        if kind == "t" and text.isdigit():
            self._now = max(self._now, float(text))
            is_silent = self._now - self._lines.heard > SILENCE_SECONDS
            return self._sorted(self._lines.complain(f"{self._lines.tool} does not answer") if is_silent else [])
        if kind == "f":
            self.facts.append(text)
        elif kind == "w":
            self._looked = self._now
            self._silence.see_logs(text, self._now)
        elif kind == "k" and text:
            self._silence.see_files(text, self._now)
        elif kind == "k":
            self._silence = Silence()  # the files cannot be listed
        elif kind in ("g", "p"):
            stamp, _, values = text.partition(", ")
            moment = _time_of(stamp)
            self._now = moment or self._now
            return self._sorted(self._lines.take(kind + (values if moment else text)))
        return self._sorted(self._lines.take(line))

    def _new_lines(self) -> SmiLines:
        return SmiLines(lambda: self._now, lambda: self._now)

    def _take_header(self, line: str) -> None:
        if line != ".":
            self._header.append(line)
            return
        job = {text[:1]: text[1:] for text in self._header if text[:1] in ("h", "v")}
        count, _, name = job.get("h", "1 ").partition(" ")
        # The script has removed the fields that this nvidia-smi does not know.
        for text in self._header:
            if text[:1] == "F" and text[1:2] in self._lines.fields:
                fields = text[2:].split(",")
                self._lines.fields[text[1]] = tuple(field for field in fields if field != "timestamp")
        machine = self._lines.machine([text for text in self._header if text[:1] not in ("h", "v", "F")])
        devices = [device for device in machine.devices if _is_visible(device, job.get("v", ""))]
        self._devices = frozenset(device.number for device in devices)
        if count != "1":
            devices = [on_node(device, self._first, name) for device in devices]
        else:
            self._first = 0
        problem = machine.problem or ("" if devices else f"{machine.source} lists no GPU of the job")
        self.machine = machine._replace(devices=tuple(devices), problem=problem)
        self.is_new = self._has_header = True

    def _sorted(self, records: list[Sample | Note]) -> list[Note]:
        """Keep the samples of the job's GPUs, and return the notes."""
        notes = []
        for record in records:
            if isinstance(record, Sample):
                self.last = max(self.last, round(record.time, 2))
                # While a look at the files blocks, changes are not seen.
                is_known = self._silence.is_known and self._now - self._looked <= LOOK_SECONDS
                quiet = self._silence.seconds(self._now) if is_known else None
                readings, processes = self._own(record.readings), self._own(record.processes)
                self.samples.append(Sample(self.last, readings, processes, quiet))
            elif record.device < 0 or record.device in self._devices:
                notes.append(record)
        return notes

    def _own(self, values: tuple[_Value, ...]) -> tuple[_Value, ...]:
        return tuple(
            value._replace(device=self._first + value.device) for value in values if value.device in self._devices
        )


def _is_visible(device: Device, visible: str) -> bool:
    """Return True if the variable that Slurm sets, such as CUDA_VISIBLE_DEVICES, lists the device or a slice of it."""
    words = visible.split(",")
    return any(word in (str(device.number), device.uuid, *device.slices) for word in words)


def _time_of(stamp: str) -> float:
    """Parse a time in nvidia-smi's format, `2026/11/23 14:00:01.123`; return 0 for other text."""
    try:
        return timegm(time.strptime(stamp[:19], "%Y/%m/%d %H:%M:%S")) + float(f"0{stamp[19:]}")
    except ValueError:
        return 0.0
