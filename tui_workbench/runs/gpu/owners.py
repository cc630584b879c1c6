"""Find out which GPU processes belong to a run."""

from __future__ import annotations

import contextlib

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import RunSpec
from tui_workbench.runs.gpu.usage import OWN
from tui_workbench.targets.gpu.choice import chosen
from tui_workbench.targets.gpu.sample import Process, Sample
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.registry import target_for


class Owners:
    """The owners of the GPU processes in the samples of a run.

    The run's processes in the last sample are remembered.
    """

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._container: str | None = None
        self._devices: frozenset[int] = frozenset()
        self._own: frozenset[int] = frozenset()

    def seen(self, sample: Sample) -> Sample:
        """Return the sample with the owners of processes, without devices that the run cannot use."""
        processes = tuple(
            process._replace(user=self._owner(process), run="", container="", session=0) for process in sample.processes
        )
        own = [process for process in processes if process.user == OWN]
        self._own = frozenset(process.pid for process in own)
        if self._spec.target.gpus not in ("", "all"):
            self._devices = self._devices or frozenset(device.number for device in chosen(self._spec.run_directory))
        if not self._devices or -1 in self._devices:
            return sample._replace(processes=processes)
        devices = self._devices | {process.device for process in own}
        return Sample(
            sample.time,
            tuple(reading for reading in sample.readings if reading.device in devices),
            tuple(process for process in processes if process.device in devices),
        )

    def _owner(self, process: Process) -> str:
        if process.run == self._spec.run_id or self._is_in_own_container(process) or self._is_in_own_session(process):
            return OWN
        # The driver may list a process that has just ended and whose owner cannot be read.
        if not process.user and not process.name and process.pid in self._own:
            return OWN
        return process.run or process.user

    def _is_in_own_session(self, process: Process) -> bool:
        if not process.session or not self._spec.target.kind.runs_here:
            return False
        shell = supervisor.read_supervisor(self._spec.run_directory)
        return shell is not None and shell.same_boot and shell.pid == process.session

    def _is_in_own_container(self, process: Process) -> bool:
        if not process.container or not self._spec.target.kind.runs_in_container:
            return False
        if self._container is None:
            # Do not use the controller's target, which another thread uses. Retry after an error at the next sample.
            with contextlib.suppress(WorkbenchError):
                self._container = target_for(self._spec.target).container_id(self._spec)
        return bool(self._container) and self._container == process.container
