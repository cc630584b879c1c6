"""Cancel the job of a run, and wait until Slurm reports its end."""

from __future__ import annotations

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import RunSpec
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.hosts.host_layout import HostLayout
from tui_workbench.targets.slurm.cluster import LoginHost, SlurmSilent
from tui_workbench.targets.slurm.options import JOB_PREFIX, job_name
from tui_workbench.targets.slurm.states import ENDED

PATIENCE_SECONDS = 60
"""Seconds beyond the grace period for Slurm to end a job. SIGKILL follows after KillWait, which is 30 s by default."""

STOP_SECONDS = 150.0
"""Time limit of a request in seconds, beyond the grace period. A command takes 10 s if slurmctld does not answer."""

_UNKNOWN = 75  # EX_TEMPFAIL

_STOP = shell_script("targets/slurm/scripts/stop_job.sh")
_WARN = shell_script("targets/slurm/scripts/warn_job.sh")


def warn(host: LoginHost, spec: RunSpec) -> None:
    """Send SIGTERM to the processes of the job. Raises TargetUnreachable or another WorkbenchError."""
    done = host.ask(_WARN, HostLayout(host.home()).run(spec.run_id))
    if done.code != 0:
        name = job_name(spec.run_id, spec.attempt)
        remedy = f"Send the signal on that machine: `scancel --signal=TERM --name={name}`."
        raise WorkbenchError(f"cannot send SIGTERM to the job on {host.label}: {done.complaint}", remedy=remedy)


def stop(host: LoginHost, spec: RunSpec, grace: float) -> bool | None:
    """Ask the script to end, kill it after `grace` seconds, and wait until Slurm no longer has its job.

    Returns True if the script was killed, False if not, and None if the run had no job. Raises SlurmSilent or another
    TargetUnreachable if it is unknown whether the job has ended, and WorkbenchError if it cannot be canceled.
    """
    tenths, directory = str(int(grace * 10)), HostLayout(host.home()).run(spec.run_id)
    states = " ".join(sorted(ENDED))
    arguments = (directory, job_name(spec.run_id), tenths, str(PATIENCE_SECONDS), JOB_PREFIX, states)
    done = host.ask(_STOP, *arguments, timeout=grace + STOP_SECONDS)
    if done.code == _UNKNOWN:
        raise SlurmSilent(
            f"Slurm on {host.label} has not ended the job: {done.complaint}",
            remedy="Try again. `squeue` on that machine shows the state of the job.",
        )
    if done.code != 0:
        remedy = f"Cancel the job on that machine: `scancel --name={job_name(spec.run_id, spec.attempt)}`."
        raise WorkbenchError(f"cannot cancel the job on {host.label}: {done.complaint}", remedy=remedy)
    return done.text == "forced" if done.text else None
