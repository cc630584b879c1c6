"""Watching a run's GPUs from its controller: samples into `gpu.jsonl`, and what the run configuration wants of them.

A thread reads what the machine's sampler tells and keeps what concerns the run. Whatever it meets costs the run
nothing: it is noted, and the run goes on. Only a policy that the run configuration names ends a run, with its reason: a
GPU that it needs, no idling on it, an end in time. A policy acts on what was seen only: where a driver does not tell,
nothing is ended for want of use.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from tui_workbench.core.errors import TargetUnreachable, WorkbenchError
from tui_workbench.core.files import open_below
from tui_workbench.core.model import RunConfiguration, RunSpec
from tui_workbench.core.moments import this_moment
from tui_workbench.core.waiting import Backoff
from tui_workbench.runs.gpu.evidence import AGAINST, evidence_in
from tui_workbench.runs.gpu.usage import (
    BUSY_PERCENT,
    LONGEST_GAP,
    OWN,
    SUM_EVERY,
    UNSOUND,
    Usage,
    facts_line,
    read_usage,
    sum_line,
)
from tui_workbench.runs.gpu.verdict import REQUIRED
from tui_workbench.runs.store.rundir import GPU_SAMPLES, OUTPUT, Record, RunDirectory
from tui_workbench.targets.base.registry import target_for
from tui_workbench.targets.gpu.choice import chosen
from tui_workbench.targets.gpu.feed import Feed, may_have_gpu
from tui_workbench.targets.gpu.sample import Machine, Note, Process, Sample, encode
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.hosts.host_for import host_of
from tui_workbench.targets.hosts.remote_scripts import PROCESSES_OF_RUN

LOOK_SECONDS = 1.0
"""Between two looks at a machine that cannot be reached; the first comes at once, as most losses are short."""

STOP_SECONDS = 5.0
"""What a question that was just asked of the machine may take at the run's end."""

FACTS_AFTER = (5.0, 30.0, 120.0)
"""Seconds of samples after which the run's processes are looked at themselves, when none has been seen on a GPU."""

FACTS_EVERY = 300.0


class Recorder:
    """Records one run until it is stopped. `end` is called with a reason when the run is to be ended."""

    def __init__(self, directory: RunDirectory, record: Record, end: Callable[[str], object]) -> None:
        self._directory = directory
        self._spec = record.spec
        self._policies = Policies(record.spec.run_configuration, directory)
        self._end = end
        self._stopped = threading.Event()
        self._owners = Owners(record.spec)
        self._usage = Usage()
        self._file = -1
        self._facts_at = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Record what has been told by now, and nothing further; a machine that does not answer is not waited for."""
        self._stopped.set()
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            host = self._host()
            if host is not None:
                self._record(host)
            else:
                self._watch_the_clock()
        except (WorkbenchError, OSError, RuntimeError, *UNSOUND) as error:
            self._directory.append_event("step", step="gpu", reason=f"not watched: {type(error).__name__}: {error}")
        finally:
            if self._file >= 0:
                self._write(sum_line(self._usage))
                os.close(self._file)

    def _host(self) -> Host | None:
        """The machine, when it may have a GPU that the run can reach."""
        if not self._spec.target.can_use_gpus:
            return None
        host = host_of(self._spec.target)
        pauses = Backoff(LOOK_SECONDS)
        while not self._stopped.is_set():
            try:
                return host if may_have_gpu(host) else None
            except TargetUnreachable:
                self._stopped.wait(pauses.next())
        return None

    def _watch_the_clock(self) -> None:
        """What can be wanted of a run where no GPU can be looked at."""
        wanted = self._policies.without_gpu()
        while not wanted and self._policies.has_limit and not self._stopped.wait(LOOK_SECONDS):
            wanted = self._policies.by_the_clock()
        if wanted:
            self._end(wanted)

    def _record(self, host: Host) -> None:
        with Feed(self._spec.target) as feed:
            while True:
                is_last = self._stopped.wait(LOOK_SECONDS)
                things = feed.read()
                if self._usage.samples == 0 and isinstance(feed.machine, Machine) and not feed.machine.devices:
                    break
                for thing in things:
                    self._take(thing)
                if is_last:
                    # A driver may keep who asks it waiting.
                    if self._usage.samples and feed.silent_seconds > LONGEST_GAP:
                        text = f"the driver told nothing in the run's last {feed.silent_seconds:.0f} s"
                        self._take(Note(time.time(), text))
                    return
                self._look_closer(host)
                wanted = self._policies.by_the_clock() or self._policies.by_use(self._usage)
                if wanted:
                    self._end(wanted)
                    self._policies.forget()
        self._watch_the_clock()

    def _take(self, thing: Machine | Sample | Note) -> None:
        if isinstance(thing, Machine):
            self._usage.machine = thing
            self._write(encode(thing))
        elif isinstance(thing, Note):
            if self._usage.samples:
                self._usage.note(thing.time, thing.text)
                self._write(encode(thing))
        else:
            seen = self._owners.seen(thing)
            before = self._usage.last
            self._usage.add(seen)
            self._policies.count(seen, self._usage, seen.time - before if before else 0.0)
            self._write(encode(seen))
            if self._usage.samples % SUM_EVERY == 0:
                self._write(sum_line(self._usage))

    def _look_closer(self, host: Host) -> None:
        """While none of the run's processes is seen on a GPU: learn why, from the processes themselves."""
        usage = self._usage
        if not usage.samples or any(use.held for use in usage.devices.values()):
            return
        watched = usage.last - usage.first
        if watched < next((after for after in FACTS_AFTER if after > self._facts_at), self._facts_at + FACTS_EVERY):
            return
        self._facts_at = max(watched, 0.1)
        with contextlib.suppress(WorkbenchError):
            if facts := facts_of(host, self._spec.run_id):
                usage.facts.update(facts)
                self._write(facts_line(facts))

    def _write(self, line: bytes) -> None:
        if self._file < 0:
            self._open()
        with contextlib.suppress(OSError):  # a full disk: the sum goes on in memory, and later lines may find room
            os.write(self._file, line)

    def _open(self) -> None:
        """Go on with what an earlier controller has recorded."""
        machine = self._usage.machine
        known = read_usage(self._directory.file(GPU_SAMPLES))
        if known is not None and known.samples:
            self._usage = known
            self._usage.machine = machine
            self._policies.go_on(known)
        self._file = open_below(self._directory.path, GPU_SAMPLES, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")


REQUIRED_SECONDS = 600.0
"""How long a run that needs a GPU may go on without one: data is often prepared first."""


class Policies:
    """Those of one run, kept up sample by sample."""

    def __init__(self, configuration: RunConfiguration, directory: RunDirectory) -> None:
        self._configuration = configuration
        self._begin = directory.status().begin or this_moment()
        self._log = directory.file(OUTPUT)
        self._idle = 0.0
        self._absent = 0.0
        self._read_log = 0.0
        self._is_over = False

    @property
    def has_limit(self) -> bool:
        """True when the run may only last so long."""
        return bool(self._configuration.max_duration_minutes)

    def forget(self) -> None:
        """One has acted: the others keep still."""
        self._is_over = True

    def go_on(self, usage: Usage) -> None:
        """Go on where a controller that is no more has stopped: what idled then may have worked since."""
        if any(use.held for use in usage.devices.values()):
            self._absent = -1.0

    def by_the_clock(self) -> str:
        """Why the run is to end now, "" when it is not."""
        minutes = self._configuration.max_duration_minutes
        if self._is_over or not minutes or self._begin.seconds_since < 60 * minutes:
            return ""
        return f"MaxDurationMinutes: ended after {minutes} min"

    def without_gpu(self) -> str:
        """The same where no GPU is in reach."""
        if self._configuration.require_gpu and not self._is_over:
            return f"{REQUIRED}: there is no GPU that it could use"
        return ""

    def count(self, sample: Sample, usage: Usage, passed: float) -> None:
        """Take note of a sample that came `passed` seconds after the one before."""
        passed = passed if 0 < passed <= LONGEST_GAP else 0.0
        held = {process.device for process in sample.processes if process.user == OWN}
        if usage.machine.hides_processes:
            # Whose work it is cannot be seen: any counts.
            held = {reading.device for reading in sample.readings}
        if held:
            self._absent = -1.0
        elif self._absent >= 0:
            self._absent += passed
        readings = [reading for reading in sample.readings if reading.device in held]
        if any(reading.utilization is None or reading.utilization >= BUSY_PERCENT for reading in readings):
            self._idle = 0.0
        else:
            self._idle += passed

    def by_use(self, usage: Usage) -> str:
        """Why the run is to end by what was seen of it, "" when it is not."""
        if self._is_over:
            return ""
        minutes = self._configuration.stop_if_idle_minutes
        if minutes and self._idle >= 60 * minutes:
            return f"StopIfIdleMinutes: nothing of it has computed on a GPU for {minutes} min"
        if not self._configuration.require_gpu or self._absent < 0 or not usage.samples:
            return ""
        if self._absent >= REQUIRED_SECONDS:
            return f"{REQUIRED}: none of its processes has used a GPU in {REQUIRED_SECONDS / 60:.0f} min"
        # A framework that says that it found no GPU is believed at once; looked at every ten seconds.
        if usage.last - self._read_log < 10:
            return ""
        self._read_log = usage.last
        found = evidence_in(self._log)
        if found and all(each.speaks == AGAINST for each in found):
            return f"{REQUIRED}: {found[0].cause}"
        return ""


class Owners:
    """The owners of processes for one run. Remembers which were the run's own in the sample before."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._container: str | None = None
        self._devices: frozenset[int] = frozenset()
        self._own: frozenset[int] = frozenset()

    def seen(self, sample: Sample) -> Sample:
        """The sample with the owner of each process as this run sees it, and without the devices of other runs."""
        processes = tuple(
            process._replace(user=self._whose(process), run="", container="", session=0) for process in sample.processes
        )
        own = [process for process in processes if process.user == OWN]
        self._own = frozenset(process.pid for process in own)
        if self._spec.target.gpus not in ("", "all"):
            self._devices = self._devices or frozenset(each.number for each in chosen(self._spec.run_directory))
        if not self._devices or -1 in self._devices:
            return sample._replace(processes=processes)
        wanted = self._devices | {process.device for process in own}
        return Sample(
            sample.time,
            tuple(reading for reading in sample.readings if reading.device in wanted),
            tuple(process for process in processes if process.device in wanted),
        )

    def _whose(self, process: Process) -> str:
        """Whose a process is, as this run sees it."""
        if process.run == self._spec.run_id or self._is_in_our_container(process) or self._is_in_our_session(process):
            return OWN
        # One that has just ended is nobody's any more, and the driver may list it for a moment.
        if not process.user and not process.name and process.pid in self._own:
            return OWN
        return process.run or process.user

    def _is_in_our_session(self, process: Process) -> bool:
        if not process.session or not self._spec.target.kind.runs_here:
            return False
        shell = supervisor.read_supervisor(self._spec.run_directory)
        return shell is not None and shell.same_boot and shell.pid == process.session

    def _is_in_our_container(self, process: Process) -> bool:
        if not process.container or not self._spec.target.kind.runs_in_container:
            return False
        if self._container is None:
            # With a target of its own: another thread waits with the controller's. Else with the next sample.
            with contextlib.suppress(WorkbenchError):
                self._container = target_for(self._spec.target).container_id(self._spec)
        return bool(self._container) and self._container == process.container


_FACTS = f"""\
id=$1
{PROCESSES_OF_RUN}
for pid in $(left); do
    [ -r /proc/"$pid"/maps ] && echo seen
    grep -qs 'libcuda\\.so' /proc/"$pid"/maps && echo cuda
    tr '\\0' '\\n' </proc/"$pid"/environ | sed -n 's/^CUDA_VISIBLE_DEVICES=/visible=/p'
    ls -l /proc/"$pid"/fd | sed -n 's|.*/dev/nvidia\\([0-9][0-9]*\\)$|device=\\1|p'
done 2>/dev/null | sort -u
exit 0
"""


def facts_of(host: Host, run_id: str) -> dict[str, Any]:
    """`cuda`: whether one has loaded it; `visible`: their CUDA_VISIBLE_DEVICES; `open`: devices that they have open.

    Empty when none of them can be looked at. Raises TargetUnreachable.
    """
    lines = host.run(["sh", "-c", _FACTS, "sh", run_id]).text.split("\n")
    if "seen" not in lines:
        return {}
    facts: dict[str, Any] = {"cuda": "cuda" in lines}
    for line in lines:
        name, equals, value = line.partition("=")
        if name == "visible" and equals:
            facts["visible"] = value
        elif name == "device" and value.isdigit():
            facts.setdefault("open", []).append(int(value))
    return facts
