"""Follow the runs of one login of a cluster together: squeue reports their states, files contain output and exit codes.

Two requests serve any number of runs. One asks squeue every 15 to 30 seconds. The other is an `sh` loop on the login
node that ends with its connection. The loop prints the sizes of the growing files of runs that have started, and their
exit codes, whenever they change. A job announces its start with a file in one folder, so a thousand queued runs cost
one listing of that folder. Files are opened again each time, because NFS checks for changes when a file is opened.

The sizes of the copies on this machine are the only state, so any process can continue, and no byte is lost or
repeated.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from tui_workbench.config.schema.slurm_options import requested_gpus
from tui_workbench.core.errors import StorageError, WorkbenchError
from tui_workbench.core.model import RunSpec
from tui_workbench.core.waiting import Interrupted, wait_ready
from tui_workbench.targets.base.group import RunGroup
from tui_workbench.targets.hosts.copying import append, fetch, missing_parts
from tui_workbench.targets.hosts.host_run import HostRun
from tui_workbench.targets.slurm import ends
from tui_workbench.targets.slurm.cluster import LoginHost
from tui_workbench.targets.slurm.followed import FollowedRun
from tui_workbench.targets.slurm.listing import Files, Listing, follow_words, list_once
from tui_workbench.targets.slurm.options import requeues, warning_of
from tui_workbench.targets.slurm.polling import Poller
from tui_workbench.targets.slurm.squeue import Account
from tui_workbench.targets.ssh.background import FollowingProgram, result_of
from tui_workbench.targets.values import Outcome, Report

_Result = TypeVar("_Result")


class ClusterWatch(RunGroup):
    """Follows the runs of one login that have the same `runRoot`."""

    def __init__(self, host: LoginHost, seconds: float) -> None:
        """`seconds` is the shortest interval of regular requests to squeue; see `Poller`."""
        self._host = host
        self._poller = Poller(host, seconds)
        self._runs: dict[str, FollowedRun] = {}
        self._specs: dict[str, RunSpec] = {}  # of `_runs`
        self._ended: dict[str, Outcome] = {}
        self._loop = FollowingProgram(host, lambda: follow_words(host))
        self._listing = Listing()
        self._files: Mapping[str, Files] = {}  # of runs that have started, while the loop is connected
        self._interrupted = -1

    def add(self, spec: RunSpec, report: Report) -> None:
        directory = spec.run_directory
        outcome = ends.outcome_here(directory)
        if outcome is not None:
            report.ran(ends.times_here(directory))
            self._ended[spec.run_id] = outcome
            return
        job_id = str(ends.read_info(directory).get("job", ""))
        self._specs[spec.run_id] = spec
        self._runs[spec.run_id] = FollowedRun(
            self._host,
            spec.run_id,
            directory,
            job_id,
            report,
            attempt=spec.attempt,
            may_restart=requeues(spec.slurm),
            retries=bool(spec.run_configuration.retry),
            warning=warning_of(spec.slurm, spec.run_configuration.signal_before_end_minutes),
            has_samples=requested_gpus(spec.slurm) != 0,
        )
        if spec.run_id in self._files:
            # The run started before it was followed, and the loop prints only changes.
            self._runs[spec.run_id].take_files(self._files[spec.run_id])
        self._poller.ask_soon()

    def remove(self, run_id: str) -> None:
        self._runs.pop(run_id, None)
        self._specs.pop(run_id, None)
        self._ended.pop(run_id, None)

    def wait(self, interrupted: int, timeout: float | None = None) -> Mapping[str, Outcome]:
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        self._interrupted = interrupted
        with contextlib.suppress(Interrupted):
            while not self._ended:
                self._step(deadline)
                if time.monotonic() >= deadline:
                    break
        ended, self._ended = self._ended, {}
        return ended

    def close(self) -> None:
        self._loop.close()

    # -- one round ----------------------------------------------------------------------------------------------------

    def _step(self, deadline: float) -> None:
        """Wait for an event until `deadline`, and process it. Raises Interrupted."""
        if self._runs:
            self._loop.start()
            self._poller.begin()
        descriptors = (self._loop.descriptor, self._poller.descriptor, self._interrupted)
        pause = max(0.0, min(deadline, self._next_time()) - time.monotonic())
        ready = wait_ready(
            [descriptor for descriptor in descriptors if descriptor >= 0], timeout=None if math.isinf(pause) else pause
        )
        if self._interrupted in ready:
            raise Interrupted
        if self._poller.descriptor in ready:
            self._take_queue()
        try:
            if self._loop.descriptor in ready:
                self._take_output(self._loop.read())
            if self._loop.has_answered:
                self._advance()
        except WorkbenchError as error:
            self._loop.fail()
            self._files = {}
            for run in self._runs.values():
                run.lose(str(error))

    def _next_time(self) -> float:
        """Return the time of the next action without an event (monotonic clock); infinity if none is due."""
        times = [run.next_time() for run in self._runs.values()] if self._loop.has_answered else []
        if self._runs and self._poller.descriptor < 0:
            times.append(self._poller.due)
        if self._runs:
            times.append(self._loop.start_due)
        return min(times, default=math.inf)

    def _call(self, action: Callable[[], _Result]) -> _Result:
        """Return the result of a call that contacts the cluster. Raises its errors, and Interrupted."""
        return result_of(action, self._interrupted)

    # -- the loop on the login node -----------------------------------------------------------------------------------

    def _take_output(self, data: bytes) -> None:
        """Process a part of the output of the loop. Raises TargetUnreachable."""
        if not data:  # the loop was started
            self._listing = Listing()
            return
        try:
            files = self._listing.feed(data)
        except ValueError as error:
            raise self._loop.lost(f"the answer was invalid ({error})") from error
        self._loop.accept_answer()
        self._files = files if files is not None else self._files
        for run in self._runs.values():
            with run.reporting():
                if files is not None and run.run_id in files:
                    run.take_files(files[run.run_id])
                run.regain(is_slurm_silent=bool(self._poller.silence))

    def _take_queue(self) -> None:
        """Take the answer of squeue, or its error."""
        answers = self._poller.finish()
        for run in self._runs.values():
            if answers:
                with run.reporting():
                    run.take_queue(self._poller.queue, self._poller.asked)
                    if self._loop.has_answered:
                        run.regain(is_slurm_silent=False)
            elif self._loop.has_answered and not run.files.job_id:
                run.lose(self._poller.silence)

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Copy new output, read the files of runs whose jobs are gone, and end runs. Raises WorkbenchError."""
        self._copy()
        now = time.monotonic()
        gone = [run for run in self._runs.values() if run.look_due(now)]
        if gone:
            files = self._call(lambda: list_once(self._host, [run.run_id for run in gone]))
            for run in gone:
                with run.reporting():
                    run.take_look(files.get(run.run_id, Files()))
            self._copy()
        for run in list(self._runs.values()):
            run.report_attempts()
            self._call_if_due(run)
            if run.wants_explanation(now):
                self._poller.ask_soon()
        self._end_runs()

    def _call_if_due(self, run: FollowedRun) -> None:
        """Fetch the other files of a run, such as metrics, if the pause since the last time is over."""
        if run.live_due:
            try:
                self._call(run.poll_live)
            except StorageError as error:
                run.lose(str(error))

    def _copy(self) -> None:
        """Copy the bytes that the listing shows. Raises TargetUnreachable."""
        now = time.monotonic()
        parts = [
            part
            for run in self._runs.values()
            if run.copies_at <= now
            for part in missing_parts(run.run_id, run.directory, run.files.sizes)
        ]
        if not parts:
            return
        copied = self._call(lambda: fetch(self._host, parts))
        for part, data in copied.items():
            run = self._runs[part.run_id]
            try:
                append(part, data)
                run.note_copied()
            except StorageError as error:
                run.fail_copy(str(error))
        for run_id in {part.run_id for part in parts} - {part.run_id for part in copied}:
            self._runs[run_id].fail_copy("")

    def _end_runs(self) -> None:
        now = time.monotonic()
        unclear = [run for run in self._runs.values() if run.needs_accounting(now)]
        if unclear:
            accounts = self._call(lambda: ends.accounting(self._host, [run.job_id for run in unclear]))
            for run in unclear:
                run.take_accounting(accounts.get(run.job_id, Account()))
        for run in list(self._runs.values()):
            outcome = run.outcome(now)
            if outcome is not None:
                self._call(run.fetch_samples)
                host_run = HostRun(self._host, self._specs[run.run_id])
                outcome = self._call(partial(host_run.with_full_disk, outcome))
                times = run.end_times()
                with contextlib.suppress(OSError):
                    ends.keep_outcome(run.directory, outcome, times)
                del self._runs[run.run_id], self._specs[run.run_id]
                self._ended[run.run_id] = outcome
