"""The checks of a cluster: its commands, `runRoot` on the login node, and on request a job of one second."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from functools import cached_property

from tui_workbench.config.schema.slurm_options import requested_gpus
from tui_workbench.core.errors import NoGpu, WorkbenchError
from tui_workbench.core.model import ComputeTarget, RunSpec
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.checks.check_machine import disk_of_home, python
from tui_workbench.targets.checks.ladder import Check, Checks
from tui_workbench.targets.checks.result import (
    BROKEN,
    DISK,
    GPU,
    JOB,
    OK,
    PYTHON,
    RUN_ROOT,
    SLURM,
    WARNING,
    CheckFailed,
    CheckResult,
)
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.slurm.cluster import LoginHost
from tui_workbench.targets.slurm.containers import container_support
from tui_workbench.targets.slurm.options import resource_words
from tui_workbench.targets.slurm.submission import remedy_of
from tui_workbench.targets.slurm.trying import accepted, writable

JOB_SECONDS = 120
"""Time limit in seconds for the start and the end of a job of one second."""

VISIBLE_SECONDS = 60
"""Time limit in seconds for a file from a compute node to appear on the login node.

NFS caches folders for up to a minute.
"""

_NOT_SHARED, _NO_PYTHON, _LATE = 66, 127, 75

_TRY = shell_script("targets/slurm/scripts/try_job.sh")
_TRY_ON_NODE = shell_script("targets/slurm/scripts/try_job_on_node.sh")


class ClusterChecks:
    """Checks of a cluster, which its login host executes."""

    def __init__(self, target: ComputeTarget, host: Host) -> None:
        self._target = target
        self._host = LoginHost(host, target.run_root)

    def slurm(self) -> CheckResult:
        """Check that Slurm would accept a job with the options of the target. Raises WorkbenchError."""
        try:
            message = f"a job with the options of the target is accepted; {accepted(self._host, self._target)}"
            if self._target.container != "none":
                message += f"; {self._target.container}: {container_support(self._host, self._target)}"
            return CheckResult(SLURM, OK, message)
        except WorkbenchError as error:
            raise CheckFailed(error.message, error.remedy, file=self._target.path) from error

    def run_root(self) -> CheckResult:
        """Check that the login node can write to `runRoot`. Raises WorkbenchError."""
        folder = writable(self._host, self._target)
        remedy = f"To check that the compute nodes can use this folder, run `{self.job_command}`."
        return CheckResult(RUN_ROOT, OK, f"the login node can write to {folder}", remedy)

    def disk(self) -> CheckResult:
        """Check the disk of `runRoot`. Raises WorkbenchError."""
        return disk_of_home(self._target, self._host)

    @property
    def job_command(self) -> str:
        """The shell command that runs all checks, including the job."""
        return f"workbench-tui computetarget check {shlex.quote(self._target.name)} --job"

    def job(self) -> CheckResult:
        """Submit a job of one second that reads and writes files below `runRoot`. Raises WorkbenchError."""
        python = "" if self._target.setup or "/" not in self._target.python_location else self._target.python_location
        root = self._host.home()
        seconds = (str(JOB_SECONDS), str(VISIBLE_SECONDS))
        arguments = (root, python, *seconds, _TRY_ON_NODE, *resource_words(self._target.slurm))
        done = self._host.ask(_TRY, *arguments, timeout=JOB_SECONDS + VISIBLE_SECONDS + 60.0)
        if done.code == 0:
            node, _, version = done.text.partition(" ")
            return CheckResult(JOB, OK, f"node {node} can use {root}{version and f' and has {version}'}")
        if done.code == _LATE:
            message = f"the job did not end within {JOB_SECONDS} s ({done.complaint}), so runRoot was not checked"
            return CheckResult(JOB, WARNING, message, "Check again later. `sinfo` on the cluster shows free nodes.")
        compute_node = done.complaint.rpartition(" ")[2]
        if done.code == _NOT_SHARED:
            raise CheckFailed(
                f"the compute node {compute_node} does not share runRoot {root}",
                "Set `runRoot` to a folder on a file system that the login node and all compute nodes mount.",
                file=self._target.path,
            )
        if done.code == _NO_PYTHON and python:
            raise CheckFailed(
                f"the compute node {compute_node} cannot run pythonLocation {python}",
                "Set `pythonLocation` to an interpreter on a file system that the compute nodes mount.",
                file=self._target.path,
            )
        raise CheckFailed(
            f"the job failed: {done.complaint}",
            remedy_of(done.complaint, resource_words(self._target.slurm)),
            file=self._target.path,
        )


class SlurmChecks(Checks):
    """The checks of `type: slurm`. GPUs are on nodes that a job gets later, so only the request can be checked."""

    @cached_property
    def _cluster(self) -> ClusterChecks:
        return ClusterChecks(self.target, self.host)

    def of_type(self) -> Sequence[Check]:
        interpreter = Check(PYTHON, lambda: python(self.target, self.host))
        return (
            Check(SLURM, lambda: self._cluster.slurm()),
            Check(RUN_ROOT, lambda: self._cluster.run_root()),
            # The commands of `setup` may load the interpreter, so the login node may not have it.
            *(() if self.target.setup else (interpreter,)),
            Check(DISK, lambda: self._cluster.disk()),
        )

    def on_request(self) -> Sequence[Check]:
        return (Check(JOB, lambda: self._cluster.job()),)

    def run_before_start(self, spec: RunSpec, *, only_known: bool = False) -> Iterator[CheckResult]:
        """Check that the job of a run requests GPUs."""
        if requested_gpus(spec.slurm) != 0:
            yield CheckResult(GPU, OK, "the job requests GPUs")
            return
        file = spec.run_configuration.path
        message = "this run would not use a GPU, but RequireGpu is true: its Slurm job requests none"
        command = f"workbench-tui config set {shlex.quote(file)} Slurm.gpus 1"
        error = NoGpu(message, remedy="Set `Slurm.gpus` to 1.", file=file, command=command)
        yield CheckResult(GPU, BROKEN, message, error.remedy, command, error=error)
