"""Watching a run's GPUs from its controller: samples into `gpu.jsonl`, and what the run configuration wants of them.

A thread reads what the machine's sampler tells and keeps what concerns the run. Whatever it meets costs the run
nothing: it is noted, and the run goes on. Only a policy that the run configuration names ends a run, with its reason.
"""

from __future__ import annotations

import os
import threading
import time

from tui_workbench.errors import TargetUnreachable, WorkbenchError
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.gpu.policies import Policies
from tui_workbench.runs.gpu.usage import (
    LONGEST_GAP,
    OWN,
    SUM_EVERY,
    Counted,
    Usage,
    counted,
    facts_line,
    read_usage,
    sample_line,
    sum_line,
)
from tui_workbench.runs.rundir import GPU_SAMPLES
from tui_workbench.targets import supervisor
from tui_workbench.targets.gpu.feed import Feed, may_have_gpu
from tui_workbench.targets.gpu.sample import Machine, Note, Process, Sample, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui_workbench.model import ComputeTarget
    from tui_workbench.runs.rundir import Record, RunDirectory
    from tui_workbench.targets.host import Host

LOOK_SECONDS = 1.0
LONGEST_PAUSE = 30.0
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
        self._usage = Usage()
        self._file = -1
        self._since_sum = 0
        self._facts_at = 0.0
        self._container: str | None = None
        self._devices: frozenset[int] = frozenset()
        self._own: frozenset[int] = frozenset()
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
        # Of all that a driver or a file system can do, nothing may stand in the way of the run's end.
        except Exception as error:
            self._directory.append_event("step", step="gpu", reason=f"not watched: {type(error).__name__}: {error}")
        finally:
            if self._file >= 0:
                self._write(sum_line(self._usage))
                os.close(self._file)

    def _host(self) -> Host | None:
        """The machine, when it may have a GPU that the run can reach."""
        from tui_workbench.targets.host_for import host_of

        if not in_reach(self._spec.target):
            return None
        host = host_of(self._spec.target)
        pause = LOOK_SECONDS
        while not self._stopped.is_set():
            try:
                return host if may_have_gpu(host) else None
            except TargetUnreachable:
                self._stopped.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
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
                    self._note_silence(feed.silent_seconds)
                    return
                self._look_closer(host)
                wanted = self._policies.by_the_clock() or self._policies.by_use(self._usage)
                if wanted:
                    self._end(wanted)
                    self._policies.forget()
        self._watch_the_clock()

    def _note_silence(self, seconds: float) -> None:
        """Say of a run that has ended that its last part was not seen: a driver may keep who asks it waiting."""
        if self._usage.samples and seconds > LONGEST_GAP:
            self._take(Note(time.time(), f"the driver told nothing in the run's last {seconds:.0f} s"))

    def _take(self, thing: Machine | Sample | Note) -> None:
        if isinstance(thing, Machine):
            self._usage.machine = thing
            self._write(encode(thing))
        elif isinstance(thing, Note):
            if self._usage.samples:
                self._usage.note(thing.time, thing.text)
                self._write(encode(thing))
        else:
            thing = self._given(thing)
            whose = [self._whose(process) for process in thing.processes]
            pairs = zip(thing.processes, whose, strict=True)
            self._own = frozenset(process.pid for process, word in pairs if word == OWN)
            seen = [counted(process, word) for process, word in zip(thing.processes, whose, strict=True)]
            self._add(thing, seen)
            self._write(sample_line(thing, whose))
            self._since_sum += 1
            if self._since_sum >= SUM_EVERY:
                self._since_sum = 0
                self._write(sum_line(self._usage))

    def _given(self, sample: Sample) -> Sample:
        """Of the machine's devices those that the run was given, or that it is on all the same."""
        if self._spec.target.gpus in ("", "all"):
            return sample
        from tui_workbench.targets.gpu.choice import chosen

        self._devices = self._devices or frozenset(each.number for each in chosen(self._directory.path))
        if not self._devices or -1 in self._devices:
            return sample
        wanted = self._devices | {process.device for process in sample.processes if self._whose(process) == OWN}
        return sample._replace(
            readings=tuple(reading for reading in sample.readings if reading.device in wanted),
            processes=tuple(process for process in sample.processes if process.device in wanted),
        )

    def _add(self, sample: Sample, processes: list[Counted]) -> None:
        before = self._usage.last
        self._usage.add(sample.time, sample.readings, processes)
        self._policies.count(sample, processes, self._usage, sample.time - before if before else 0.0)

    def _whose(self, process: Process) -> str:
        """Whose a process is, as this run sees it."""
        if process.run == self._spec.run_id or self._is_in_our_container(process) or self._is_in_our_session(process):
            return OWN
        # One that has just ended is nobody's any more, and the driver may list it for a moment.
        if not process.user and not process.name and process.pid in self._own:
            return OWN
        return process.run or process.user

    def _is_in_our_session(self, process: Process) -> bool:
        if not process.session or self._spec.target.type != "local":
            return False
        shell = supervisor.read_supervisor(self._spec.run_directory)
        return shell is not None and shell.same_boot and shell.pid == process.session

    def _is_in_our_container(self, process: Process) -> bool:
        if not process.container or not self._spec.target.type.endswith("docker"):
            return False
        if self._container is None:
            from tui_workbench.targets.docker import DockerTarget
            from tui_workbench.targets.protocol import target_for

            # One of its own: another thread waits with the controller's.
            target = target_for(self._spec.target)
            try:
                self._container = target.container_id(self._spec) if isinstance(target, DockerTarget) else ""
            except WorkbenchError:
                return False  # asked again with the next sample
        return bool(self._container) and self._container == process.container

    def _look_closer(self, host: Host) -> None:
        """While none of the run's processes is seen on a GPU: learn why, from the processes themselves."""
        usage = self._usage
        if not usage.samples or any(use.held for use in usage.devices.values()):
            return
        watched = usage.last - usage.first
        if watched < next((after for after in FACTS_AFTER if after > self._facts_at), self._facts_at + FACTS_EVERY):
            return
        self._facts_at = max(watched, 0.1)
        from tui_workbench.runs.gpu.facts import facts_of

        try:
            facts = facts_of(host, self._spec.run_id)
        except WorkbenchError:
            return
        if facts:
            usage.facts.update(facts)
            self._write(facts_line(facts))

    def _write(self, line: bytes) -> None:
        if self._file < 0:
            self._open()
        try:
            os.write(self._file, line)
        except OSError:
            return  # a full disk: the sum goes on in memory, and later lines may find room

    def _open(self) -> None:
        """Go on with what an earlier controller has recorded."""
        path = self._directory.file(GPU_SAMPLES)
        machine = self._usage.machine
        known = read_usage(path)
        if known is not None and known.samples:
            self._usage = known
            self._usage.machine = machine
            self._policies.go_on(known)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")


def in_reach(target: ComputeTarget) -> bool:
    """Whether a run on the target can reach a GPU at all: a container only when it is given some."""
    return target.gives_gpus if target.type.endswith("docker") else target.gpus != "0"
