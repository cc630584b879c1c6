"""Submit the job of a run exactly once, from any process, even if the connection is lost.

One request submits a job. Its script on the login node does nothing if the run already has a job. If an earlier request
may have reached Slurm (`attempted` exists), the script looks for the job by its name, and by its working directory,
because sites rename jobs. It calls sbatch only if neither squeue nor sacct knows the job. If sbatch has accepted a job
without printing its ID (`accepted` exists), sbatch is never called again. While Slurm does not answer, it is unknown
whether the job exists, and nothing is submitted. If there are two jobs nevertheless, the second ends at once, because
`pid` exists.

A sweep is one job array, whose tasks are held. The first request for any of its runs submits the array. The request for
a run gives one task of the array the name and the log of a single job, and releases the task. Slurm then gives the task
a separate job ID, and the task is treated as a single job. If Slurm refuses the array, the runs are single jobs.

Another attempt of a run is another job, with another name. `reset` removes the files of the job before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tui_workbench.core.errors import TargetUnreachable, WorkbenchError
from tui_workbench.core.model import RunSpec
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.hosts.host import Completed, Host, disk_full, is_disk_full
from tui_workbench.targets.hosts.host_run import COPY_SECONDS, HostRun, Placing
from tui_workbench.targets.slurm.batch import STARTED
from tui_workbench.targets.slurm.cluster import TRANSIENT, LoginHost, SlurmSilent
from tui_workbench.targets.slurm.options import VALUES, job_name

SUBMIT_SECONDS = 180.0
"""Time limit of a submission in seconds. sbatch retries for a minute while slurmctld is busy."""

ANSWER_SECONDS = 60.0
"""Time limit of a short request in seconds. squeue exits after about 10 s if slurmctld does not answer."""

NO_SBATCH = 69  # EX_UNAVAILABLE: the exit code of scripts on a machine without sbatch
_UNKNOWN = 75  # EX_TEMPFAIL
_NOT_ASKED = 74  # EX_IOERR: Slurm was not asked, and another request may succeed
_CANCELED = 77  # EX_NOPERM

MOST_MESSAGES = 5
"""Maximum number of lines of sbatch's output that an error quotes."""

_SUBMIT = shell_script("targets/slurm/scripts/submit.sh")
_PLACE_AND_SUBMIT = shell_script("targets/slurm/scripts/place_and_submit.sh")
_RESET = shell_script("targets/slurm/scripts/reset_run.sh")

# $1: run directory. Prints the ID of the job, or nothing if the run was never submitted.
_JOB = 'cd -- "$1" 2>/dev/null || exit 0; for file in job pid; do [ ! -s "$file" ] || exec head -n 1 "$file"; done'


_PREFIX = re.compile(r"^((sbatch|squeue|slurm\w*):? (error: )?)?(Batch job submission failed: |allocation failure: )?")


class Submitted(NamedTuple):
    """The ID of a job, and the other output of sbatch."""

    job_id: str
    messages: tuple[str, ...] = ()
    task: str = ""  # the job as a task of an array, such as `12_3`


class SubmissionRefused(WorkbenchError):
    """The job was not submitted: sbatch refused it or is missing, or the run was canceled."""


class ArrayTask(NamedTuple):
    """The task of a run in the array of its sweep."""

    folder: str  # of the array, on the cluster
    name: str  # of the array's job
    tasks: str  # such as `1-6%2`
    number: int
    log: str  # the file for the output of the batch script
    script: str  # the batch script of the array, which starts that of the run


class Submission(NamedTuple):
    """A job to submit: the run's directory, the name of the job, its step and batch script, and options of sbatch."""

    directory: str
    name: str
    step: bytes
    batch: bytes
    options: tuple[str, ...]
    clean: str  # the command that frees space, for errors
    array: ArrayTask | None = None
    attempt: int = 1

    @property
    def words(self) -> list[str]:
        """The script that submits the job, and its arguments."""
        sizes = [str(len(self.step)), str(len(self.batch))]
        array = map(str, self.array or [""] * len(ArrayTask._fields))
        attempt, transient = str(self.attempt), "|".join(TRANSIENT)
        return [_SUBMIT, self.directory, *sizes, self.name, attempt, transient, *array, *self.options]


def submit(host: Host, job: Submission) -> Submitted:
    """Submit a job, unless an earlier call did, and return its ID.

    Raises SlurmSilent or another TargetUnreachable if it is unknown whether the job was accepted; then call this
    function again. Raises SubmissionRefused or StorageError if no job exists.
    """
    script, *arguments = job.words
    done = host.run(["sh", "-c", script, "sh", *arguments], stdin=job.step + job.batch, timeout=SUBMIT_SECONDS)
    return _submitted(host, job, done)


def place_and_submit(host: Host, placing: Placing, job: Submission) -> Submitted | None:
    """Make the run's copy and submit the job with one request. Raises the errors of `submit`.

    Returns None if the copy could not be made. Then send the files, and call `submit`.
    """
    command = ["sh", "-c", _PLACE_AND_SUBMIT, "sh", placing.script, *placing.arguments, *job.words]
    data = placing.input + job.step + job.batch
    done = host.run(command, stdin=data, timeout=COPY_SECONDS + SUBMIT_SECONDS)
    return _submitted(host, job, done) if done.code or done.stdout else None


def _submitted(host: Host, job: Submission, done: Completed) -> Submitted:
    match = re.search(r"^job (\d+)(?:\njob (\d+_\d+))?$", done.text, re.MULTILINE)
    if done.code == 0 and match is not None:
        return Submitted(match[1], tuple(messages(done)), match[2] or "")
    raise refusal(host.label, done, job.clean, job.options)


def reset(host: LoginHost, spec: RunSpec, *, anew: bool) -> None:
    """Make it possible to submit the job of attempt `spec.attempt`; see `Target.reset`.

    Raises TargetUnreachable, StorageError or another WorkbenchError.
    """
    run = HostRun(host, spec)
    started = f"{host.home()}/{STARTED}/{spec.run_id}"
    words = ["sh", "-c", _RESET, "sh", run.directory, str(spec.attempt), job_name(spec.run_id), started]
    done = host.run([*words, *run.reset_command(anew=anew)], timeout=SUBMIT_SECONDS)
    if done.code == _NOT_ASKED:
        raise TargetUnreachable(
            f"cannot start the run again on {host.label}: {done.complaint}", remedy="Wait: the workbench tries again."
        )
    run.finish_reset(done)


def job_of(host: Host, directory: str) -> str:
    """Return the ID of the job of a run; "" if it was never submitted. Raises WorkbenchError."""
    text = host.check(["sh", "-c", _JOB, "sh", directory]).text.strip()
    return text if text.isdecimal() else ""


def refusal(label: str, done: Completed, clean: str, words: Sequence[str]) -> WorkbenchError:
    """Return the error for a failed submission. `words` are the options of sbatch."""
    text = "; ".join(messages(done)[-MOST_MESSAGES:]) or f"exit code {done.code}"
    if is_disk_full(text):
        return disk_full(label, text, clean)
    if done.code == _UNKNOWN:
        return SlurmSilent(
            f"Slurm on {label} does not answer: {text}", remedy="Wait: the run continues when Slurm answers."
        )
    if done.code == _NOT_ASKED:
        return TargetUnreachable(f"cannot submit the job on {label}: {text}", remedy="Wait: the workbench tries again.")
    if done.code == NO_SBATCH:
        return no_sbatch(label)
    if done.code == _CANCELED:
        return SubmissionRefused(f"no job was submitted: {text}", remedy="Submit the run again.")
    return SubmissionRefused(f"sbatch refused the job: {text}", remedy=remedy_of(text, words))


def no_sbatch(label: str) -> SubmissionRefused:
    """Return the error for a login host without the commands of Slurm."""
    return SubmissionRefused(
        f"{label} has no sbatch: neither SSH sessions nor login shells have it on their PATH",
        remedy="Set `address` to a login node of the cluster. If `sbatch` works there after you log in, add its folder "
        "to PATH in ~/.profile.",
    )


_REMEDIES = (
    ("invalid account", "account", "one that `sacctmgr show associations user=$USER` lists"),
    ("partition", "partition", "one that `sinfo -s` lists"),
    ("maxwall", "time", "at most the limit that `sacctmgr show qos format=name,maxwall` shows"),
    ("policy", "", "Wait until your other jobs have ended, or request less: `sacctmgr show qos` shows the limits."),
    ("account", "account", "one that `sacctmgr show associations user=$USER` lists"),
    ("qos", "qos", "one that `sacctmgr show associations user=$USER` lists"),
    ("time limit", "time", "at most the limit that `sinfo -s` shows for the partition"),
    ("--time", "time", "a time such as 4:00:00"),
    ("feature", "constraint", "a feature that `sinfo -o '%P %f'` lists"),
    ("gres", "gpus", "at most the number that `sinfo -o '%P %G'` shows for the nodes of the partition"),
    ("memory", "mem", "at most the value that `sinfo -o '%P %m'` shows, in MB"),
    ("processors", "cpus", "at most the number that `sinfo -o '%P %c'` shows for the nodes of the partition"),
    ("cpu count", "cpus", "at most the number that `sinfo -o '%P %c'` shows for the nodes of the partition"),
    (
        "reservation",
        "",
        "Correct `--reservation` in `slurm.extra`: `scontrol show reservation` lists the reservations.",
    ),
    (
        "node configuration",
        "",
        "Request fewer nodes, GPUs or CPUs, or less memory: `sinfo -o '%P %D %c %m %G'` shows what the nodes have.",
    ),
    ("node count", "nodes", "at most the number that `sinfo -s` shows for the partition"),
    ("option", "", "Correct `slurm.extra`: `sbatch --help` lists the options."),
    ("limit", "", "Wait until your other jobs have ended, or request fewer resources."),
)
"""A part of an error of sbatch, the key to change or "", and its new value or the remedy. The first match counts."""


def remedy_of(text: str, words: Sequence[str] = ()) -> str:
    """Return the fix for an error of sbatch, which was called with the options `words`."""
    lower = text.lower()
    for word, key, change in _REMEDIES:
        if word in lower:
            if not key:
                return change
            option = f"{VALUES[key]}="
            values = [given.removeprefix(option) for given in words if given.startswith(option)]
            present = f" ({values[-1]})" if values else ""
            return f"Set `slurm.{key}`{present} to {change}."
    return "Correct the options below `slurm` in the target or the run configuration."


def messages(done: Completed) -> list[str]:
    """Return the messages of a Slurm command without their prefixes."""
    lines = done.stderr.decode("utf-8", "replace").split("\n")
    return [shown for line in lines if (shown := _PREFIX.sub("", line.strip()))]
