"""The state of one run that is followed on a cluster."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator

from tui_workbench.config.schema.retry import TIMEOUT
from tui_workbench.core.causes import JOB_NEAR_LIMIT, Cause
from tui_workbench.core.errors import StorageError
from tui_workbench.core.model import ClusterJob
from tui_workbench.targets.hosts.copying import missing_parts
from tui_workbench.targets.hosts.mirror import LiveFiles
from tui_workbench.targets.slurm import ends, states
from tui_workbench.targets.slurm.cluster import LoginHost
from tui_workbench.targets.slurm.ends import cause_of, was_interrupted
from tui_workbench.targets.slurm.listing import Files
from tui_workbench.targets.slurm.options import job_name
from tui_workbench.targets.slurm.squeue import Account, Queue, facts_of, is_news, local_time
from tui_workbench.targets.values import Outcome, Report, Times

EXPLAIN_SECONDS = 10.0
"""Time limit in seconds for Slurm to report why it killed a script. The job is COMPLETING meanwhile."""

LATE_SECONDS = 5.0
"""Time limit in seconds for the exit code to reach the file system after the end of a job."""

HIDDEN_SECONDS = 60.0
"""Seconds for which NFS may hide a new file from other machines (`acdirmax` of nfs(5))."""

EARLY_SECONDS = 90.0
"""A SIGTERM up to this many seconds before the expected warning counts as the warning.

Slurm can send the warning a minute early.
"""

RETRY_SECONDS = 2.0
"""Seconds before another attempt to copy bytes that could not be read or written."""

MOST_FAILURES = 5
"""Number of failures after which the missing bytes of a run are skipped. Its script has probably replaced the file."""


class FollowedRun:
    """A followed run. `job_id` is "" if the run's job is unknown. Times are of the monotonic clock."""

    def __init__(
        self,
        host: LoginHost,
        run_id: str,
        directory: str,
        job_id: str,
        report: Report,
        *,
        attempt: int = 1,
        may_restart: bool,
        retries: bool = False,
        has_samples: bool,
        warning: int = 0,
    ) -> None:
        """Follow an attempt of a run that the workbench has started.

        `may_restart` is True if Slurm may requeue the job, `retries` if `Retry` needs the cause of each failure, and
        `has_samples` if the job samples its GPUs. `warning` is the number of seconds between SIGTERM and the
        time limit; 0 without SIGTERM.
        """
        self.run_id, self.directory, self.job_id = run_id, directory, job_id
        self.files = Files()
        self.copies_at = 0.0
        self._host = host
        self._report = report
        self._attempt = attempt
        self._name = job_name(run_id, attempt)
        self._may_restart = may_restart
        self._retries = retries
        self._has_samples = has_samples
        self._added = time.monotonic()
        self._live: LiveFiles | None = None
        self._warning = warning
        self._facts = ClusterJob()
        self._started = math.inf  # when its files first showed the last attempt
        self._is_put_back = False  # Slurm has requeued its job
        self._waits_for = ""
        self._last_attempt = attempt  # the number of the last reported attempt
        self._is_start_reported = False
        self._is_lost = False
        self._is_blocked = False  # this machine cannot write the copies of its files
        self._failures = 0
        self._gone_since = math.inf
        self._next_look = math.inf
        self._end_state = ""
        self._explain_until = math.inf
        self._account: Account | None = None
        self._ended_at = 0.0  # when Slurm says that its job ended, by the clock of this machine

    # -- news ---------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def reporting(self) -> Iterator[None]:
        """Turn a StorageError into a call of `lose`, because the error must not affect other runs."""
        try:
            yield
        except StorageError as error:
            self.lose(str(error))

    def take_files(self, files: Files) -> None:
        """Process the files that the loop on the login node has listed."""
        if not self._take_attempt(files):
            return
        own = {number: attempt for number, attempt in files.attempts.items() if number >= self._attempt}
        files = files._replace(attempts=own)
        is_new = files.sizes != self.files.sizes
        if len(files.attempts) > len(self.files.attempts):
            self._is_put_back, self._explain_until, self._started = False, math.inf, time.monotonic()
        if files.job_id and not self.files.job_id:
            # A slurmctld that was killed may start a job that it had canceled.
            self._gone_since, self._next_look, self._end_state = math.inf, math.inf, ""
        self.files = files
        if files.job_id:
            self.job_id = files.job_id
            self._started = min(self._started, time.monotonic())
            self._report_start()
            if not self._is_put_back:
                self._report.running()
            if self._live is None:
                self._live = LiveFiles(self._host, f"{self._host.home()}/runs/{self.run_id}", self.directory)
            elif is_new:
                self._live.poll_soon()

    def _report_start(self) -> None:
        """Report when the first attempt of the job began, once."""
        start = self.files.started.start
        if start and not self._is_start_reported:
            self._is_start_reported = True
            self._report.ran(Times(start))

    def _take_attempt(self, files: Files) -> bool:
        """Follow a later attempt, if another machine has started one. Return False for files of an earlier attempt."""
        if files.attempt > self._attempt:
            self._attempt = self._last_attempt = files.attempt
            self._name, self.job_id = job_name(self.run_id, files.attempt), ""
            self._gone_since, self._next_look, self._end_state = math.inf, math.inf, ""
        return files.attempt == self._attempt

    def take_queue(self, queue: Queue, asked: float) -> None:
        """Process an answer of squeue to a request at the time `asked`."""
        if asked < self._added:
            return
        if not self.job_id:
            self.job_id = next((listed.job_id for listed in queue.jobs.values() if listed.name == self._name), "")
        job = queue.jobs.get(self.job_id)
        if job is not None and job.run_id and job.name != self._name:
            job = None  # a slurmctld that lost its last jobs gives their IDs to other jobs
        if job is None or job.state in states.ENDED:
            if job is not None:
                self._end_state, self._ended_at = job.state, local_time(queue.now, job.end)
            if self._end_state in states.BY_ITSELF:
                # A slurmctld that was killed may list a job as pending that it has started.
                self._is_put_back = False
            if math.isinf(self._gone_since):
                self._gone_since = self._next_look = time.monotonic()
            return
        self._gone_since = self._next_look = math.inf
        self._end_state = ""
        if job.state in states.WAITING:
            self._is_put_back = asked > self._started
            if self._is_put_back or not self.files.job_id:
                reason = states.describe_waiting(job.state, job.reason)
                words = ("put back in the queue" if self._is_put_back else "", reason)
                self._wait_for("; ".join(filter(None, words)))
        elif job.state in states.ACTIVE:
            self._is_put_back = False
            self._report.running()
        facts = facts_of(job, queue, self._warning, time.time())
        if is_news(facts, self._facts):
            self._facts = facts
            self._report.job(facts)

    def _wait_for(self, reason: str) -> None:
        """Report why the job waits, also in preparation.log, which is shown until the script starts."""
        if reason and reason != self._waits_for:
            with contextlib.suppress(StorageError, OSError):
                self._report.line(f"waiting: {reason}")
        self._waits_for = reason
        self._report.queued(reason)

    def take_look(self, files: Files) -> None:
        """Process the files of a run whose job is gone."""
        now = time.monotonic()
        if not self._take_attempt(files):
            files = Files()
        if files.job_id and files.job_id != self.job_id:
            # Another job of the same name executes the run; the job that this machine knew ended at once.
            self._gone_since = self._next_look = math.inf
            self._end_state = ""
        else:
            last = self._gone_since + (LATE_SECONDS if files.has_exit else HIDDEN_SECONDS)
            self._next_look = min(now + LATE_SECONDS, last) if now < last else now + RETRY_SECONDS
        if files.job_id or files.sizes:
            self.take_files(files)

    def take_accounting(self, account: Account) -> None:
        """Process the answer of sacct, which is empty if it does not know the job."""
        self._account = account
        if account.state in states.ENDED:  # sacct may list a job as running that a failed slurmctld has lost
            self._end_state, self._ended_at = account.state, account.end or self._ended_at

    def lose(self, reason: str) -> None:
        """Report that the state of the run is unknown."""
        self._is_lost = True
        with contextlib.suppress(StorageError):
            self._report.lost(reason)

    def regain(self, *, is_slurm_silent: bool) -> None:
        """Report that the state is known again, unless the copies cannot be written.

        The state of a waiting run is unknown while Slurm does not answer.
        """
        if self._is_lost and not self._is_blocked and (self.files.job_id or not is_slurm_silent):
            self._is_lost = False
            self._report.regained()

    def report_attempts(self) -> None:
        """Report new attempts after the first, once slurm.log, which names the causes, is copied."""
        numbers = [number for number in sorted(self.files.attempts) if number > self._last_attempt]
        if not numbers or not self.is_copied:
            return
        lines = ends.tail(self.directory)
        with contextlib.suppress(StorageError):
            for number in numbers:
                cause = cause_of(number, self.files.attempts, lines)
                before, attempt = self.files.attempts.get(number - 1), self.files.attempts[number]
                if before is not None:
                    self._report.ran(before.times)
                self._report.attempt(number, attempt.start, cause, before.exit_code if before is not None else None)
                self._report.ran(Times(attempt.times.start))
                self._last_attempt = number

    # -- copies -------------------------------------------------------------------------------------------------------

    def note_copied(self) -> None:
        self._failures, self.copies_at, self._is_blocked = 0, 0.0, False

    def fail_copy(self, reason: str) -> None:
        """Record that bytes could not be copied. `reason` is the error of this machine; "" for a failed read."""
        self.copies_at = time.monotonic() + RETRY_SECONDS
        if reason:
            self._is_blocked = True
            self.lose(reason)
        else:
            self._failures += 1

    @property
    def live_due(self) -> bool:
        return self._live is not None and self._live.timeout == 0.0

    def poll_live(self) -> None:
        """Fetch the other files of the run. Raises TargetUnreachable or StorageError."""
        if self._live is not None:
            self._live.poll()

    def fetch_samples(self) -> None:
        """Fetch the rest of the job's GPU samples, for the GPU verdict. Raises TargetUnreachable."""
        if self._live is not None and self._has_samples:
            with contextlib.suppress(StorageError):
                self._live.fetch_all()

    @property
    def is_copied(self) -> bool:
        """True if the copies are as complete as they can be."""
        return self._failures >= MOST_FAILURES or not missing_parts(self.run_id, self.directory, self.files.sizes)

    # -- the end ------------------------------------------------------------------------------------------------------

    def next_time(self) -> float:
        """Return the time of the next action (monotonic clock); infinity if none is due."""
        # When `_explain_until` has passed, only news from Slurm can end the run, so no action is due.
        times = [self._explain_until] if self._explain_until > time.monotonic() else []
        if self.files.exit_code is None:
            times.append(self._next_look)
        if self._live is not None:
            times.append(time.monotonic() + self._live.timeout)
        if not self.is_copied:
            times.append(self.copies_at)
        return min(times, default=math.inf)

    def look_due(self, now: float) -> bool:
        """Return True if the job is gone and the files of the run must be read."""
        return self.files.exit_code is None and now >= self._next_look

    def wants_explanation(self, now: float) -> bool:
        """Return True if squeue may know why the script was killed."""
        code = self.files.exit_code
        if code is None or self._end_state or not math.isinf(self._gone_since):
            return False
        if self._is_put_back or not (self._may_restart or self._was_ended_by_slurm):
            return False
        if math.isinf(self._explain_until):
            self._explain_until = now + EXPLAIN_SECONDS
        return now < self._explain_until

    def needs_accounting(self, now: float) -> bool:
        """Return True if only sacct may know how the job ended."""
        if self._account is not None or not self.job_id or not self._is_over(now):
            return False
        if self._exit_code is None:
            return True
        return self._was_ended_by_slurm and not self._end_state and not math.isinf(self._gone_since)

    def outcome(self, now: float) -> Outcome | None:
        """Return the outcome of the run; None until its end is certain and its output is copied."""
        if not self._is_over(now) or not self.is_copied:
            return None
        code = self._exit_code
        if code is not None:
            return self._with_warning(ends.outcome_with_code(code, self._end_state, self.directory))
        code = self._account.exit_code if self._account is not None else None
        return ends.outcome_without_code(self._end_state, code, self.directory, has_started=bool(self.files.job_id))

    def end_times(self) -> Times:
        """Return when the script of a run that is over began and ended, and report it."""
        times = self.files.times
        times = times._replace(end=times.end or self._ended_at)
        with contextlib.suppress(StorageError):
            self._report.ran(times)
        return times

    @property
    def _exit_code(self) -> int | None:
        """The exit code of a run that is over; None if the job ended while it waited for another start."""
        is_between = self._may_restart and (
            self._is_put_back or was_interrupted(self.files.attempts, ends.tail(self.directory))
        )
        return None if is_between else self.files.exit_code

    @property
    def _was_ended_by_slurm(self) -> bool:
        """True if Slurm may have ended the script. After SIGTERM, a script such as torchrun can have any exit code."""
        code = self.files.exit_code or 0
        return code >= ends.KILLED_FROM or (
            code != 0 and (self._retries or ends.was_signaled(ends.last_attempt(ends.tail(self.directory))))
        )

    def _with_warning(self, outcome: Outcome) -> Outcome:
        """Return the outcome. If Slurm has sent SIGTERM before the time limit, the limit is the cause of a failure."""
        is_close = 0 < self._facts.warning < time.time() + EARLY_SECONDS
        if not is_close or not outcome.exit_code or outcome.retry is not None:
            return outcome
        if not ends.got_sigterm(outcome.exit_code, self.directory):
            return outcome
        return outcome._replace(causes=(Cause(JOB_NEAR_LIMIT), *outcome.causes), retry=TIMEOUT)

    def _is_over(self, now: float) -> bool:
        code = self.files.exit_code
        if code is None:
            limit = LATE_SECONDS if self.files.has_exit else HIDDEN_SECONDS
            return now >= self._gone_since + limit
        if self._end_state or not math.isinf(self._gone_since):
            return True
        return not self._may_restart and (not self._was_ended_by_slurm or now >= self._explain_until)
