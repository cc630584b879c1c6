"""Ask squeue about all jobs of this user: every 15 to 30 seconds, sooner after an event, less often without answers."""

from __future__ import annotations

import time
from collections.abc import Mapping

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import MIN_POLL_SECONDS
from tui_workbench.core.waiting import BackgroundCall
from tui_workbench.targets.slurm.cluster import LoginHost
from tui_workbench.targets.slurm.squeue import LIST_JOBS, LIST_POSITIONS, Job, Queue, parse, parse_positions
from tui_workbench.targets.slurm.states import WAITING
from tui_workbench.targets.slurm.submission import ANSWER_SECONDS

LONGEST_FACTOR = 2.0
"""While nothing changes, the interval grows up to this factor: from 15 to 30 s by default."""

SILENT_LONGEST = 300.0
"""Longest interval in seconds while slurmctld does not answer."""

POSITION_SECONDS = 60.0
"""Shortest time in seconds between two requests for all waiting jobs of the cluster.

Such a request loads slurmctld more than a request for the jobs of this user.
"""

SOON_SECONDS = 2.0
"""Shortest time in seconds between two requests after an event such as a submission, with the default interval."""


class Poller:
    """Background requests to squeue.

    `queue` is the last answer, `asked` the time of its request, and `due` the time of the next request (monotonic
    clock). While Slurm does not answer, `silence` is the error.
    """

    def __init__(self, host: LoginHost, seconds: float) -> None:
        """`seconds` is the shortest interval between requests.

        If `seconds` is at most MIN_POLL_SECONDS, the interval before a request after an event is SOON_SECONDS.
        """
        self._host = host
        self._seconds = seconds
        self._soon = seconds if seconds > MIN_POLL_SECONDS else SOON_SECONDS
        self._interval = seconds
        self.due = 0.0
        self._call: BackgroundCall | None = None
        self._begun = 0.0
        self._has_event = False  # since the pending request was sent
        self._answers: list[Queue] = []
        self._positions: Mapping[str, int] = {}
        self._positions_due = 0.0
        self.queue = Queue("", {})
        self.asked = -1.0
        self.silence = ""

    @property
    def descriptor(self) -> int:
        """A descriptor that becomes readable with the answer; -1 if no request is pending."""
        return self._call.descriptor if self._call is not None else -1

    def ask_soon(self) -> None:
        """Make the next request earlier, after an event that squeue may explain."""
        self.due = min(self.due, self._begun + self._soon)
        self._has_event = True

    def begin(self) -> None:
        """Send a request to squeue if it is due."""
        if self._call is None and time.monotonic() >= self.due:
            self._begun = time.monotonic()
            self.due = self._begun + self._interval
            self._has_event = False
            self._call = BackgroundCall(self._ask)

    def finish(self) -> bool:
        """Read the answer. Return True if squeue has answered; then `queue` contains it, even if nothing changed."""
        if self._call is None:
            raise ValueError("no request is pending")
        call, self._call = self._call, None
        try:
            with call:
                call.result()
        except WorkbenchError as error:
            self.silence = str(error)
            self._interval = min(2 * self._interval, SILENT_LONGEST)
            self.due = self._begun + self._interval
            return False
        before, self.queue = self.queue.jobs, self._answers.pop()
        self.asked, self.silence = self._begun, ""
        is_new = _lasting(before) != _lasting(self.queue.jobs)
        self._interval = self._seconds if is_new else min(1.5 * self._interval, LONGEST_FACTOR * self._seconds)
        # The answer may be older than an event that occurred during the request.
        self.due = self._begun + (self._soon if self._has_event else self._interval)
        return True

    def _ask(self) -> None:
        queue = parse(self._host.ask_slurm(LIST_JOBS, timeout=ANSWER_SECONDS))
        if any(job.run_id and job.state in WAITING for job in queue.jobs.values()):
            if time.monotonic() >= self._positions_due:
                self._positions_due = time.monotonic() + POSITION_SECONDS
                # An error is ignored: positions are only information.
                self._positions = parse_positions(self._host.ask(LIST_POSITIONS, timeout=ANSWER_SECONDS).text)
            queue = queue._replace(positions=self._positions)
        self._answers[:] = [queue]  # this is another thread; `finish` takes the answer


def _lasting(jobs: Mapping[str, Job]) -> dict[str, Job]:
    """Return the jobs without the times that change in each answer."""
    return {job_id: job._replace(time_left="", start="") for job_id, job in jobs.items()}
