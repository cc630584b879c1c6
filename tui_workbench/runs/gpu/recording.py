"""Record the GPU samples of a run in `gpu.jsonl`, and enforce the GPU policies of its run configuration.

A thread of the controller or watcher reads the samples of the machine, and stores the samples of the GPUs that the run
may use. A problem with the samples is recorded, and does not affect the run. Only a policy of the run configuration
ends a run: a required GPU, a limit on idle time or on time without progress, or a limit on the duration. Values that
the driver does not report never end a run.

When the watcher takes over a run from its controller, it also records the samples that were taken meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from tui_workbench.config.schema.slurm_options import requested_gpus
from tui_workbench.core.causes import (
    GPU_MISSING,
    GPU_REFUSED,
    GPU_UNUSED,
    IDLE,
    STALLED,
    TIME_LIMIT,
    TIME_LIMIT_WARNED,
    Cause,
)
from tui_workbench.core.errors import TargetUnreachable, WorkbenchError
from tui_workbench.core.files import open_below
from tui_workbench.core.model import RunConfiguration, RunSpec
from tui_workbench.core.moments import this_moment
from tui_workbench.core.waiting import Backoff
from tui_workbench.runs.gpu.evidence import AGAINST, evidence_in
from tui_workbench.runs.gpu.group_samples import GroupSamples, files_of_parts, may_use_gpus
from tui_workbench.runs.gpu.owners import Owners
from tui_workbench.runs.gpu.usage import (
    BUSY_PERCENT,
    LONGEST_GAP,
    OWN,
    SUM_EVERY,
    UNSOUND,
    Usage,
    attempt_line,
    facts_line,
    read_usage,
    sum_line,
)
from tui_workbench.runs.store.rundir import GPU_SAMPLES, LIMIT, OUTPUT, Record, RunDirectory
from tui_workbench.targets.gpu import activity
from tui_workbench.targets.gpu.feed import Feed
from tui_workbench.targets.gpu.job_samples import JobSamples
from tui_workbench.targets.gpu.sample import Machine, Note, Sample, encode
from tui_workbench.targets.gpu.vendors import may_have_gpu
from tui_workbench.targets.hosts import contacts
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.registry import target_for
from tui_workbench.targets.ssh.host_for import host_of

LOOK_SECONDS = 1.0  # seconds between two attempts to reach the machine or to read samples
STOP_SECONDS = 5.0  # maximum seconds to wait for the end of the thread; a call to the machine may be in progress
# The processes of the run are inspected at these times, in seconds since the first sample, and then every FACTS_EVERY
# seconds, until one of them has been observed on a GPU.
FACTS_AFTER = (5.0, 30.0, 120.0)
FACTS_EVERY = 300.0
# Bytes of the machine's samples in which the next process looks for those that it has missed. A sample of eight GPUs
# with 64 processes has 5 kB.
MISSED_BYTES = 1 << 17
# A new watcher may start to record hundreds of runs on a machine at once.
_PROBES = threading.Semaphore(4)


class Recorder:
    """A thread that records the GPU use of a run, and enforces the policies.

    `end` is called with the cause if a policy ends the run, and `end_attempt` if the time limit ends an attempt.
    `on_stall` is called for the first stall of each attempt.
    """

    def __init__(
        self,
        directory: RunDirectory,
        record: Record,
        end: Callable[[Cause], object],
        end_attempt: Callable[[Cause], object],
        on_stall: Callable[[], object] = lambda: None,
    ) -> None:
        self._directory = directory
        self._spec = record.spec
        self._policies = Policies(record.spec.run_configuration, directory)
        self._end = end
        self._end_attempt = end_attempt
        self._on_stall = on_stall
        self._has_stalled = False  # in this attempt
        self._stopped = threading.Event()
        self._owned = Owners(record.spec).seen
        self._usage = Usage()
        self._usage.gives_all = _gives_all(record.spec)
        self._quiet: Callable[[Sample], float | None] = lambda sample: sample.quiet
        self._file = -1
        self._facts_at = 0.0
        self._has_no_samples = False  # the run cannot use a GPU, but may have a time limit
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), daemon=True)
        self._thread.start()

    @property
    def can_be_replaced(self) -> bool:
        """True if the recorder of another process could now continue without a missing sample."""
        return self._has_no_samples or not self._thread.is_alive() or self._usage.continues_at(time.time())

    def stop(self, *, wait: bool = True) -> None:
        """Record the remaining samples, and stop. With `wait`, wait for this, at most STOP_SECONDS."""
        self._stopped.set()
        if wait:
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            if self._spec.target.kind.has_scheduler:
                self._record_job()
            elif self._spec.target.parts:
                self._record_group()
            elif (host := self._host()) is not None:
                self._record_machine(host)
            elif not self._stopped.is_set():
                # Runs on other types of targets may use GPUs that the workbench cannot read.
                self._enforce_without_samples(has_no_gpu=self._spec.target.kind.has_gpus)
        except (WorkbenchError, OSError, RuntimeError, *UNSOUND) as error:
            self._directory.append_event("step", step="gpu", reason=f"not recorded ({type(error).__name__}: {error})")
        finally:
            if self._file >= 0:
                self._write(sum_line(self._usage))
                os.close(self._file)

    def _host(self) -> Host | None:
        """Return the machine of the run, or None if there is no GPU for the run or recording was stopped."""
        if not (self._spec.target.can_use_gpus and self._spec.target.kind.has_gpus):
            return None
        host = host_of(self._spec.target)
        if self._continues():
            return host
        pauses = Backoff(LOOK_SECONDS)
        while not self._stopped.is_set():
            try:
                with _PROBES:
                    return host if may_have_gpu(host) else None
            except TargetUnreachable:
                self._stopped.wait(pauses.next())
        return None

    def _continues(self) -> bool:
        """Return True if another process has recorded the samples until now."""
        # A file that does not exist is not created here: it would give a run on a machine without a GPU a verdict.
        if self._file < 0 and os.path.lexists(self._directory.file(GPU_SAMPLES)):
            self._open()
        return self._usage.continues_at(time.time())

    def _enforce_without_samples(self, *, has_no_gpu: bool) -> None:
        self._has_no_samples = True
        cause = self._policies.without_gpu() if has_no_gpu else None
        if cause is not None:
            self._end(cause)
            return
        while self._policies.has_limit and not self._stopped.wait(LOOK_SECONDS):
            self._enforce_time()

    def _enforce_time(self) -> None:
        """Warn the script if its time is nearly over, and end the attempt at the time limit."""
        if (warning := self._policies.warning()) is not None:
            self._warn(warning)
        if (cause := self._policies.by_time()) is not None:
            self._policies.disable()
            self._end_attempt(cause)

    def _warn(self, cause: Cause) -> None:
        """Send SIGTERM to the run. If its machine is unreachable, the caller tries again."""
        try:
            # Do not use the controller's target, which another thread uses.
            with contextlib.closing(target_for(self._spec.target)) as target:
                target.warn(self._spec)
            self._directory.append_event(LIMIT, causes=(cause,))
        except TargetUnreachable:
            return
        except WorkbenchError as error:
            self._directory.append_event("step", step=LIMIT, reason=f"not warned: {error}")
        self._policies.is_warned = True

    def _record_machine(self, host: Host) -> None:
        watch = FileWatch(self._directory.path, lambda: activity.file_mark(host, self._spec))
        contacts.record(self._spec.target)  # a run of an earlier version of the workbench has no entry
        with Feed(self._spec.target, MISSED_BYTES if self._continues() else 0) as feed:
            self._quiet = lambda sample: watch.quiet(time.monotonic())
            has_gpu = self._follow(feed, lambda: self._inspect_processes(host))
        if not has_gpu:
            self._enforce_without_samples(has_no_gpu=True)

    def _record_group(self) -> None:
        parts = [part for part in self._spec.parts if may_use_gpus(part)]
        watch = FileWatch(self._directory.path, lambda: files_of_parts(self._spec.parts))
        has_gpu = False
        if parts:
            with GroupSamples(self._spec, parts, self._stopped.is_set) as feed:
                self._quiet = lambda sample: watch.quiet(time.monotonic())
                self._owned = lambda sample: sample
                has_gpu = self._follow(feed, lambda: self._inspect_processes(*feed.hosts))
        if not has_gpu:
            self._enforce_without_samples(has_no_gpu=True)

    def _record_job(self) -> None:
        """Record the GPU samples that the run's own Slurm job takes."""
        if requested_gpus(self._spec.slurm) == 0:
            self._enforce_without_samples(has_no_gpu=False)
            return
        if os.path.lexists(self._directory.file(GPU_SAMPLES)):
            self._open()  # load the totals: samples of the job are read from the start, and stored ones are skipped
        with JobSamples(self._directory.path, self._stopped.is_set) as feed:
            has_gpu = self._follow(feed, lambda: self._keep_facts(feed.take_facts()))
            if feed.machine is None:
                # A file without samples makes the verdict `unknown`.
                self._write(sum_line(self._usage))
        if not has_gpu:
            self._enforce_without_samples(has_no_gpu=True)

    def _follow(self, feed: Feed | JobSamples | GroupSamples, inspect: Callable[[], object]) -> bool:
        """Record samples until the run has ended. Return False at once if its machine has no GPU."""
        recorded_until, before = self._usage.last, self._usage.samples
        while True:
            is_last = self._stopped.wait(LOOK_SECONDS)
            if self._spec.target.kind.has_scheduler:
                self._note_attempt()
            records = feed.read()
            if self._usage.samples == before and isinstance(feed.machine, Machine) and not feed.machine.devices:
                return False
            for record in records:
                if isinstance(record, Machine) or record.time > recorded_until:
                    self._take(record)
            if records and not self._spec.target.kind.has_scheduler:
                recorded_until = 0.0  # all further samples are new, even if the clock is set back
            if is_last:
                # Record a gap at the end, because the driver may hang.
                if self._usage.samples and feed.silent_seconds > LONGEST_GAP:
                    text = f"the driver reported nothing in the last {feed.silent_seconds:.0f} s of the run"
                    self._take(Note(time.time(), text))
                return True
            inspect()
            if not self._has_stalled and self._usage.progress.is_stalled():
                self._has_stalled = True
                self._on_stall()
            self._enforce_time()
            if (cause := self._policies.by_use(self._usage)) is not None:
                self._policies.disable()
                self._end(cause)

    def _take(self, record: Machine | Sample | Note) -> None:
        if isinstance(record, Machine):
            self._usage.machine = record
            self._write(encode(record))
        elif isinstance(record, Note):
            if self._usage.samples:
                self._usage.note(record.time, record.text)
                self._write(encode(record))
        else:
            # After a cancel request, changes of the files are not progress.
            quiet = None if self._directory.cancel_requested else self._quiet(record)
            owned = self._owned(record)._replace(quiet=quiet)
            before = self._usage.last
            self._usage.add(owned)
            self._policies.count(owned, self._usage, owned.time - before if before else 0.0)
            self._write(encode(owned))
            if self._usage.samples % SUM_EVERY == 0:
                self._write(sum_line(self._usage))

    def _note_attempt(self) -> None:
        """Mark the beginning of another attempt. A scheduler may start the script again while this thread runs."""
        attempt = next(reversed(self._directory.attempts()), None)
        if self._file >= 0 and attempt is not None and attempt.number != self._usage.attempt:
            self._usage.begin_attempt(attempt.number)
            self._has_stalled = False
            self._policies.begin_attempt(attempt.start)
            self._write(attempt_line(attempt.number))

    def _inspect_processes(self, *hosts: Host) -> None:
        """Inspect the processes of the run if an inspection is due and none of them has been observed on a GPU."""
        usage = self._usage
        if not usage.samples or self._is_seen:
            return
        watched = usage.last - usage.first
        if watched < next((after for after in FACTS_AFTER if after > self._facts_at), self._facts_at + FACTS_EVERY):
            return
        self._facts_at = max(watched, 0.1)
        for host in hosts:
            with contextlib.suppress(WorkbenchError):
                self._keep_facts(activity.facts_of(host, self._spec.run_id))

    @property
    def _is_seen(self) -> bool:
        return any(use.held for use in self._usage.devices.values())

    def _keep_facts(self, facts: dict[str, Any]) -> None:
        if facts and not self._is_seen:
            self._usage.add_facts(facts)
            self._write(facts_line(facts))

    def _write(self, line: bytes) -> None:
        if self._file < 0:
            self._open()
        with contextlib.suppress(OSError):  # the disk is full; the totals in memory stay correct
            os.write(self._file, line)

    def _open(self) -> None:
        """Open `gpu.jsonl`, and load the totals of an earlier controller."""
        machine, gives_all = self._usage.machine, self._usage.gives_all
        stored = read_usage(self._directory.file(GPU_SAMPLES))
        if stored is not None and stored.samples:
            self._usage = stored
            self._usage.machine, self._usage.gives_all = machine if machine.devices else stored.machine, gives_all
            self._policies.resume(stored)
        self._file = open_below(self._directory.path, GPU_SAMPLES, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        size = os.fstat(self._file).st_size
        # A process that was killed, or a full disk, may have left a part of a line.
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")
        self._note_attempt()


def _gives_all(spec: RunSpec) -> bool:
    """Return True if all GPUs in the samples were assigned to the run; False if they were merely available to it."""
    return all(
        target.kind.has_scheduler or (target.gives_gpus if target.kind.runs_in_container else bool(target.gpus))
        for target in (part.target for part in spec.parts)
    )


# Seconds after which a run that requires a GPU is ended if it has used none. Scripts often prepare data first.
REQUIRED_SECONDS = 600.0

# Seconds before the first warning. A script that has just started has not installed its signal handler.
EARLIEST_WARNING_SECONDS = 5.0


class Policies:
    """The policies of a run configuration: a required GPU, and limits on idle time, inactivity and duration."""

    def __init__(self, configuration: RunConfiguration, directory: RunDirectory) -> None:
        self._configuration = configuration
        status = directory.status()
        self._begin = status.attempt_begin or this_moment()
        self.is_warned = bool(status.limit)
        self._log = directory.file(OUTPUT)
        self._is_over = False
        self.begin_attempt(next((attempt.start for attempt in reversed(directory.attempts())), 0))

    def begin_attempt(self, log_start: int) -> None:
        """Judge only the attempt whose output begins at this offset of the log."""
        self._log_start = log_start
        self._idle = self._absent = self._read_log = 0.0

    @property
    def has_limit(self) -> bool:
        return bool(self._configuration.max_duration_minutes)

    def disable(self) -> None:
        """Stop enforcement, because a policy has ended the run."""
        self._is_over = True

    def resume(self, usage: Usage) -> None:
        """Continue after an earlier controller. Idle time before this call does not count."""
        if any(use.held for use in usage.devices.values()):
            self._absent = -1.0

    def warning(self) -> Cause | None:
        """Return the cause to warn the script of its time limit, or None. The caller then sets `is_warned`."""
        minutes = self._configuration.max_duration_minutes
        before = min(self._configuration.signal_before_end_minutes, minutes)
        due = max(60 * (minutes - before), EARLIEST_WARNING_SECONDS)
        if not before or self.is_warned or self._is_over or self._begin.seconds_since < due:
            return None
        return Cause(TIME_LIMIT_WARNED, {"before": before, "minutes": minutes})

    def by_time(self) -> Cause | None:
        """Return the cause to end the attempt because of its duration, or None."""
        minutes = self._configuration.max_duration_minutes
        if self._is_over or not minutes or self._begin.seconds_since < 60 * minutes:
            return None
        return Cause(TIME_LIMIT, {"minutes": minutes})

    def without_gpu(self) -> Cause | None:
        """Return the cause to end the run because no GPU is available, or None."""
        return Cause(GPU_MISSING) if self._configuration.require_gpu and not self._is_over else None

    def count(self, sample: Sample, usage: Usage, passed: float) -> None:
        passed = passed if 0 < passed <= LONGEST_GAP else 0.0
        held = {process.device for process in sample.processes if process.user == OWN}
        if usage.machine.hides_processes:
            # The owners of processes are not visible, so GPU use by any process counts.
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

    def by_use(self, usage: Usage) -> Cause | None:
        """Return the cause to end the run because of its samples or its log, or None."""
        if self._is_over:
            return None
        minutes = self._configuration.stop_if_idle_minutes
        if minutes and self._idle >= 60 * minutes:
            return Cause(IDLE, {"minutes": minutes})
        minutes = self._configuration.stop_if_stalled_minutes
        if minutes and usage.progress.quiet >= 60 * minutes:
            return Cause(STALLED, {"minutes": minutes})
        if not self._configuration.require_gpu or self._absent < 0 or not usage.samples:
            return None
        if self._absent >= REQUIRED_SECONDS:
            return Cause(GPU_UNUSED, {"minutes": round(REQUIRED_SECONDS / 60)})
        # The log is read every ten seconds. If a framework reports that it found no GPU, the run ends at once.
        if usage.last - self._read_log < 10:
            return None
        self._read_log = usage.last
        messages = evidence_in(self._log, self._log_start)
        if messages and all(message.speaks == AGAINST for message in messages):
            return Cause(GPU_REFUSED, {"error": messages[0].cause})
        return None


class FileWatch:
    """The time since the files of the run in `directory` last changed.

    The run directory on this machine contains the logs of the run, or copies of them. Listing the files of the run may
    need a connection to another machine, so `files` is called only while the logs do not change. `files` returns a text
    that changes with the files, including the logs on that machine; "" if the files cannot be listed.
    """

    def __init__(self, directory: str, files: Callable[[], str]) -> None:
        self._directory = directory
        self._files = files
        self._silence = activity.Silence()
        self._due = 0.0

    def quiet(self, now: float) -> float | None:
        """Return the seconds since the last change, or None if unknown. `now` is the current time in seconds."""
        is_first = not self._silence.is_known
        self._silence.see_logs(activity.log_mark(self._directory), now)
        if is_first:
            self._due = now
            return None
        quiet = self._silence.seconds(now)
        if quiet < activity.LOOK_SECONDS:
            self._due = now - quiet + activity.LOOK_SECONDS
        elif now >= self._due:
            # List the files at multiples of LOOK_SECONDS, so that they are listed before a limit in minutes is reached.
            self._due += activity.LOOK_SECONDS * ((now - self._due) // activity.LOOK_SECONDS + 1)
            mark = ""
            with contextlib.suppress(WorkbenchError, OSError):
                mark = self._files()
                self._silence.see_files(mark, now)
            if not mark:
                self._silence = activity.Silence()
                return None
        return self._silence.seconds(now)
