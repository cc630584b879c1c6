"""What a run configuration can want of a run: a GPU, no idling on it, an end in time. Off unless it says so.

A policy acts on what was seen only: where a driver does not tell, nothing is ended for want of use. Each says why.
"""

from __future__ import annotations

import time

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.gpu.usage import BUSY_PERCENT, LONGEST_GAP, OWN

if TYPE_CHECKING:
    from tui_workbench.model import RunConfiguration
    from tui_workbench.runs.gpu.usage import Counted, Usage
    from tui_workbench.runs.rundir import Ending, RunDirectory
    from tui_workbench.targets.gpu.sample import Sample

REQUIRED = "RequireGpu"
REQUIRED_SECONDS = 600.0
"""How long a run that needs a GPU may go on without one: data is often prepared first."""


class Policies:
    """Those of one run, kept up sample by sample."""

    def __init__(self, configuration: RunConfiguration, directory: RunDirectory) -> None:
        self._configuration = configuration
        self._start = directory.status().start or time.time()
        self._log = directory.file("output.log")
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
        if self._is_over or not minutes or time.time() - self._start < 60 * minutes:
            return ""
        return f"MaxDurationMinutes: ended after {minutes} min"

    def without_gpu(self) -> str:
        """The same where no GPU is in reach."""
        if self._configuration.require_gpu and not self._is_over:
            return f"{REQUIRED}: there is no GPU that it could use"
        return ""

    def count(self, sample: Sample, processes: list[Counted], usage: Usage, passed: float) -> None:
        """Take note of a sample that came `passed` seconds after the one before."""
        passed = passed if 0 < passed <= LONGEST_GAP else 0.0
        held = {process.device for process in processes if process.whose == OWN}
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
        return self._by_its_log(usage)

    def _by_its_log(self, usage: Usage) -> str:
        """A framework that says that it found no GPU is believed at once; looked at every ten seconds."""
        if usage.last - self._read_log < 10:
            return ""
        from tui_workbench.runs.gpu.evidence import AGAINST, evidence_in

        self._read_log = usage.last
        found = evidence_in(self._log)
        if found and all(each.speaks == AGAINST for each in found):
            return f"{REQUIRED}: {found[0].cause}"
        return ""


def judged(configuration: RunConfiguration, ending: Ending, word: str, cause: str) -> Ending:
    """The ending of a run whose verdict is known, "" for one without; a run that needed a GPU has failed without one.

    `cause` says why none was used.
    """
    from tui_workbench.model import RunState
    from tui_workbench.runs.gpu.verdict import NOT_USED

    if not configuration.require_gpu or ending.state != RunState.COMPLETED or word not in ("", NOT_USED):
        return ending
    reason = f"{REQUIRED}: it used no GPU{f': {cause}' if cause else ''}"
    return ending._replace(state=RunState.FAILED, reason=reason, exit_code=None)
