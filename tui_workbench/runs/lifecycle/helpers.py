"""Record the GPUs and metrics of a run while its script runs, in threads of the controller or the watcher."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from tui_workbench.config.schema.slurm_options import requested_gpus
from tui_workbench.core.causes import Cause
from tui_workbench.runs.lifecycle import starting
from tui_workbench.runs.metrics.recording import MetricsRecorder
from tui_workbench.runs.notify.announcing import MetricWatch, announce
from tui_workbench.runs.notify.channels import STALLED
from tui_workbench.runs.store import rundir
from tui_workbench.runs.store.rundir import Record, RunDirectory
from tui_workbench.targets.gpu.vendors import may_have_gpu_here

if TYPE_CHECKING:
    from tui_workbench.runs.gpu.recording import Recorder


class Helpers:
    """Threads that record the GPUs and metrics of a run while its script runs."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._recorder: Recorder | None = None
        self.metrics = MetricsRecorder(directory)
        self.limit_is_reached = False  # the attempt has reached its time limit, and its script must be ended

    @property
    def can_be_replaced(self) -> bool:
        """True if the helpers of another process could now continue without a missing GPU sample."""
        return self._recorder is None or self._recorder.can_be_replaced

    def record_gpus(self, record: Record) -> None:
        """Record the GPUs of the run in a thread, and enforce its policies. Without GPUs and policies, do nothing."""
        spec, kind, policies = record.spec, record.spec.target.kind, record.spec.run_configuration
        has_policy = policies.require_gpu or policies.stop_if_idle_minutes or policies.max_duration_minutes
        if kind.has_scheduler:
            has_no_gpu = requested_gpus(spec.slurm) == 0
        else:
            has_no_gpu = not any(part.target.kind.has_gpus and part.target.can_use_gpus for part in spec.parts)
        if not has_policy and (has_no_gpu or (kind.runs_here and not may_have_gpu_here())):
            return
        from tui_workbench.runs.gpu.recording import Recorder

        self._recorder = Recorder(
            self._directory,
            record,
            self._end,
            partial(self._end_attempt, record),
            partial(announce, self._directory, STALLED),
        )

    def watch_metrics(self) -> None:
        """Check the metrics for the conditions of the user's notification channels."""
        watch = MetricWatch(self._directory)
        if watch.conditions:
            self.metrics.on_metrics = watch.check

    def stop_recording(self, *, wait: bool = True) -> None:
        """Stop recording the GPUs. With `wait`, return when the remaining samples are stored.

        This may then wait for a machine that does not answer. The call can be repeated.
        """
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.stop(wait=wait)

    def _end(self, cause: Cause) -> None:
        """End the run because of a policy."""
        self._directory.request_cancel(rundir.DEFAULT_GRACE, cause)
        os.kill(os.getpid(), starting.CANCEL_SIGNAL)

    def _end_attempt(self, record: Record, cause: Cause) -> None:
        """End the attempt because of its time limit. Without `Retry`, this ends the run."""
        if not record.spec.run_configuration.retry:
            self._end(cause)
            return
        self._directory.append_event(rundir.LIMIT, causes=(cause,), reached=True)
        self.limit_is_reached = True
        os.kill(os.getpid(), starting.CANCEL_SIGNAL)
