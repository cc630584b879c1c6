"""Act on the job of a run: signal it, cancel it, copy the rest of its files, and read its Python stacks."""

from __future__ import annotations

from tui_workbench.config.schema.slurm_options import requested_gpus
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import RunSpec
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.hosts.copying import append, fetch, missing_parts
from tui_workbench.targets.hosts.host import Completed
from tui_workbench.targets.hosts.host_layout import HostLayout
from tui_workbench.targets.hosts.mirror import LiveFiles
from tui_workbench.targets.hosts.py_spy import IS_READ, MISSING, SECONDS, installed_py_spy, reading_of, send
from tui_workbench.targets.hosts.stacks import Reading
from tui_workbench.targets.slurm.cluster import LoginHost, SlurmSilent, raise_if_silent
from tui_workbench.targets.slurm.listing import Files, list_once
from tui_workbench.targets.slurm.options import JOB_PREFIX, job_name
from tui_workbench.targets.slurm.states import ENDED

PATIENCE_SECONDS = 60
"""Seconds beyond the grace period for Slurm to end a job. SIGKILL follows after KillWait, which is 30 s by default."""

STOP_SECONDS = 150.0
"""Time limit of a request in seconds, beyond the grace period. A command takes 10 s if slurmctld does not answer."""

NODE_MARK = b"\035\n"
"""A line that separates the outputs of two nodes. It consists of the control character GS."""

_UNKNOWN = 75  # EX_TEMPFAIL

_STOP = shell_script("targets/slurm/scripts/stop_job.sh")
_WARN = shell_script("targets/slurm/scripts/warn_job.sh")
_STACKS = shell_script("targets/slurm/scripts/read_stacks.sh")


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


def drain(host: LoginHost, spec: RunSpec) -> Files:
    """Copy the rest of the files of a run that has ended, and return their listing.

    Raises TargetUnreachable or StorageError.
    """
    files = list_once(host, [spec.run_id]).get(spec.run_id, Files())
    while parts := missing_parts(spec.run_id, spec.run_directory, files.sizes):
        copied = fetch(host, parts)
        if not copied:
            break  # the script has replaced the files
        for part, data in copied.items():
            append(part, data)
    if requested_gpus(spec.slurm) != 0:
        LiveFiles(host, f"{host.home()}/runs/{spec.run_id}", spec.run_directory).fetch_all()
    return files


def read_stacks(login: LoginHost, spec: RunSpec) -> Reading:
    """Return the stacks of the processes of a job on all of its nodes. Raises WorkbenchError."""
    spy, layout = installed_py_spy(), HostLayout(login.home())
    path = layout.tool(spy.name)
    words = (layout.run(spec.run_id), path, *spy.words(path, spec.run_id))
    done = login.ask(_STACKS, *words, timeout=SECONDS)
    if done.code == MISSING:
        send(login, spy, path)
        done = login.ask(_STACKS, *words, timeout=SECONDS)
    outputs = [output for output in done.stdout.split(NODE_MARK) if output]
    if done.code != 0 and not outputs:
        raise_if_silent(login.label, done.complaint)
        remedy = (
            "If the job has just ended, `experiment stacks --last` prints the last stacks that were read. Otherwise, "
            "check the free space there, and that `srun --overlap` can start a step in a running job."
        )
        raise WorkbenchError(f"cannot read the stacks on {login.label}: {done.complaint}", remedy=remedy)
    reading = Reading()
    for output in outputs:
        # The code is that of the node that failed.
        code = 0 if IS_READ in output else done.code
        reading = reading.with_machine(reading_of(Completed(code, output, output), spy, "a node of the job"))
    return reading
