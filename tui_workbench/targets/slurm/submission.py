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
from tui_workbench.targets.hosts.host import Completed, Host, disk_full, is_disk_full
from tui_workbench.targets.hosts.host_run import COPY_SECONDS, HostRun, Placing
from tui_workbench.targets.hosts.supervisor import EXIT
from tui_workbench.targets.slurm.batch import ATTEMPT, ATTEMPT_BEGINNING, BEGUN, SLURM_LOG, STARTED, STEP, UNFINISHED
from tui_workbench.targets.slurm.cluster import PREPARE, TRANSIENT, LoginHost, SlurmSilent
from tui_workbench.targets.slurm.options import VALUES, job_name

JOB = "job"
"""The file with the job's ID, in the run's directory on the cluster. Line 2 is its ID as a task of an array."""

ACCEPTED = "accepted"
"""A file in the run's directory on the cluster. If it exists, sbatch has accepted the job."""

CANCELED = "canceled"
"""A file in the run's directory on the cluster. If it exists, a request that is still on its way submits nothing."""

SUBMIT_SECONDS = 180.0
"""Time limit of a submission in seconds. sbatch retries for a minute while slurmctld is busy."""

ANSWER_SECONDS = 60.0
"""Time limit of a short request in seconds. squeue exits after about 10 s if slurmctld does not answer."""

_UNKNOWN = 75  # EX_TEMPFAIL
_NOT_ASKED = 74  # EX_IOERR: Slurm was not asked, and another request may succeed
_REFUSED = 65  # EX_DATAERR
_CANCELED = 77  # EX_NOPERM
_MISSING = 69  # EX_UNAVAILABLE

MOST_MESSAGES = 5
"""Maximum number of lines of sbatch's output that an error quotes."""

# The file of an array task contains the path of the run's directory. `job` in the folder of an array contains `refused`
# if Slurm refused the array. $said is the output of the last Slurm command.
_ARRAY = f"""\
ask() {{
    said=$("$@" 2>"said.$$") && return
    grep -qE "$transient" "said.$$" || return 1
    cat "said.$$" >&2
    exit {_UNKNOWN}
}}
find_array() {{
    ask squeue -h -t PENDING -u "$(id -un)" -n "$sweep" -o %F || return
    id=$(printf '%s\\n' "$said" | head -n 1)
    [ -z "$id" ] || return 0
    ask squeue -h -t PENDING -u "$(id -un)" -o '%F|%Z' || return
    id=$(printf '%s\\n' "$said" | in_folder "$array")
}}
use_array() {{
    mkdir -p -- "$array" || return 0
    exec 8>>"$array/lock"
    flock -w 120 8 2>/dev/null || [ $? -ne 1 ] || {{
        echo 'another request is submitting the sweep' >&2
        exit {_NOT_ASKED}
    }}
    [ -e "$array/lock" ] || return 0  # the last other run of the sweep has just ended
    id=$(head -n 1 "$array/{JOB}" 2>/dev/null)
    if [ -z "$id" ] && [ -e "$array/attempted" ]; then
        find_array || {{ [ ! -e "$array/{ACCEPTED}" ] || doubt; return 0; }}
    fi
    if [ -z "$id" ] && [ ! -e "$array/{ACCEPTED}" ]; then
        : >>"$array/attempted" && printf '%s\\n' "$script" >"task.$$" || exit
        if ask enqueue "$@" --hold "--array=$tasks" "--job-name=$sweep" "--output=/dev/null" "--chdir=$array" <"task.$$"
        then
            : >>"$array/{ACCEPTED}"
            id=$(id_in "$said")
            [ -n "$id" ] || find_array || doubt
        else id=refused; fi
    fi
    [ -n "$id" ] || doubt
    printf '%s\\n' "$id" >"$array/{JOB}" || exit
    [ "$id" != refused ] || return 0
    mv -f "batch.$$" batch && printf '%s\\n' "$run" >"$array/$number" || exit
    task=${{id}}_$number
    ask scontrol update "JobId=$task" "JobName=$name" "StdOut=$log" && ask squeue -h -j "$task" -o %A && id=$said &&
        ask scontrol release "$task" && keep "$id" "$task"
    scancel "$task" 2>/dev/null
    rm -f "$array/$number" && mv -f batch "batch.$$" || exit
}}
"""

# Makes a second request wait for the first, which continues if its connection is lost. If flock fails with a code other
# than 1, the file system has no locks, and none is held.
_LOCK = f"""\
exec 9>>submit.lock
flock -w 120 9 2>/dev/null || [ $? -ne 1 ] || {{
    echo 'another request is submitting this run' >&2
    exit {_NOT_ASKED}
}}
"""

# $1: run directory, $2: size of the step, $3: size of the batch script, $4: name of the job, $5: number of the attempt,
# $6: pattern of temporary errors, $7 to $12: an `ArrayTask` or empty arguments, then the options of sbatch. The input
# is the step and the batch script; nothing happens unless both are complete. sbatch gives its umask to the job. A job
# that sbatch refused is listed as FAILED, BadConstraints.
_SUBMIT = f"""\
{PREPARE}
run=$1 step=$2 batch=$3 name=$4 attempt=$5 transient=$6 array=$7 sweep=$8 tasks=$9 number=${{10}} log=${{11}}
script=${{12}}
shift 12
mask=$(umask)
umask 077
trap '' HUP PIPE
cd -- "$run" || exit
trap 'rm -f "step.$$" "batch.$$" "task.$$" "said.$$"' EXIT
head -c "$step" >"step.$$" && cat >"batch.$$" || exit
[ "$(wc -c <"step.$$")" -eq "$step" ] && [ "$(wc -c <"batch.$$")" -eq "$batch" ] || {{
    echo 'the request is incomplete' >&2
    exit {_NOT_ASKED}
}}
{_LOCK}\
keep() {{
    printf '%s\\n' "$@" >"{JOB}.$$" && mv -f "{JOB}.$$" {JOB} || rm -f "{JOB}.$$"
    printf 'job %s\\n' "$@"
    [ ! -e "said.$$" ] || cat "said.$$" >&2
    exit 0
}}
id_in() {{ printf '%s\\n' "$1" | tr -d '\\r' | grep -xE '[0-9]+(;[^ ;]+)? *' | tail -n 1 | cut -d';' -f1 | tr -d ' '; }}
in_folder() {{ folder=$1 awk -F'|' 'NF == 2 && $2 == ENVIRON["folder"] {{ print $1; exit }}'; }}
doubt() {{
    echo 'the job was accepted, but sbatch printed no ID, and squeue does not list the job' >&2
    exit {_UNKNOWN}
}}
look() {{
    first= others=
    found=$(squeue -h -t all -u "$(id -un)" -n "$name" -o '%A|%T|%r' 2>"said.$$") || {{
        cat "said.$$" >&2
        exit {_UNKNOWN}
    }}
    # Only active jobs, because the job of an earlier attempt had the same working directory.
    [ -n "$found" ] || found=$(squeue -h -t PENDING,RUNNING,SUSPENDED -u "$(id -un)" -o '%A|%Z' | in_folder "$run")
    [ -n "$found" ] || found=$(sacct -n -P -X -S now-7days --name "$name" -o JobIDRaw,State 2>/dev/null)
    for one in $(printf '%s\\n' "$found" | grep -v -e '|FAILED|BadConstraints$' -e '|FAILED$' | cut -d'|' -f1 | sort -n)
    do
        if [ -z "$first" ]; then first=$one; else others="$others $one"; fi
    done
    [ -z "$others" ] || scancel $others 2>/dev/null
    [ -z "$first" ] || [ -z "$array" ] || scontrol release "$first" 2>/dev/null
    [ -z "$first" ] || keep "$first"
}}
enqueue() {{ (umask "$mask" && exec sbatch "$@"); }}
{_ARRAY}\
current=$(cat {ATTEMPT} 2>/dev/null || echo 1)
[ "$current" = "$attempt" ] || {{ echo "attempt $current has begun" >&2; exit {_CANCELED}; }}
[ ! -e {CANCELED} ] || {{ echo 'the run was canceled' >&2; exit {_CANCELED}; }}
[ ! -s {JOB} ] || keep $(head -n 2 {JOB})
[ ! -s pid ] || keep "$(head -n 1 pid)"
command -v sbatch >/dev/null || {{ echo 'sbatch: not found' >&2; exit {_MISSING}; }}
[ ! -e attempted ] || look
: >>attempted && mv -f "step.$$" {STEP} || exit
[ -z "$array" ] || use_array "$@"
[ ! -e {ACCEPTED} ] || doubt
found=$(enqueue "$@" <"batch.$$" 2>"said.$$") && {{
    : >>{ACCEPTED}
    found=$(id_in "$found")
    [ -z "$found" ] || keep "$found"
    look
    [ ! -s pid ] || keep "$(head -n 1 pid)"
    doubt
}}
cat "said.$$" >&2
grep -qE "$transient" "said.$$" && exit {_UNKNOWN}
look
rm -f attempted
exit {_REFUSED}
"""

# $1: the script of `Placing`, $2 to $7: its arguments, then _SUBMIT and its arguments. The input is that of both
# scripts. If the run's copy does not exist afterwards, nothing is submitted and nothing is printed.
_PLACE_AND_SUBMIT = """\
placed=$(head -c "$7" | sh -c "$1" sh "$2" "$3" "$4" "$5" "$6" "$7" 2>/dev/null) && [ "$placed" = placed ] || exit 0
script=$8
shift 8
exec sh -c "$script" sh "$@"
"""

# $1: run directory, $2: number of the next attempt, $3: name of the job of the first attempt, $4: file that lists the
# run as started, then a command that removes the other files of the job before. A second request for the same attempt
# does nothing. A job without an exit code may still be in the queue, or become active again. The line in slurm.log ends
# the messages about the job before.
_RESET = f"""\
{PREPARE}
number=$2 name=$3 started=$4
cd -- "$1" 2>/dev/null || {{ shift 4; exec "$@"; }}
shift 4
{_LOCK}\
before=$(cat {ATTEMPT} 2>/dev/null)
[ "$before" != "$number" ] || exit 0
{{ read -r code <{EXIT} && [ -n "$code" ]; }} 2>/dev/null ||
    scancel -u "$(id -un)" -n "$name${{before:+.$before}}" 2>/dev/null
"$@" && rm -rf -- {JOB} attempted {ACCEPTED} {CANCELED} {STEP} {BEGUN} {UNFINISHED} "$started" || exit
[ ! -e {SLURM_LOG} ] || printf '{ATTEMPT_BEGINNING}%s\\n' "$number" >>{SLURM_LOG} || exit
printf '%s\\n' "$number" >"{ATTEMPT}.$$" && mv -f "{ATTEMPT}.$$" {ATTEMPT}
"""

# $1: run directory. Prints the ID of the job, or nothing if the run was never submitted.
_JOB = f'cd -- "$1" 2>/dev/null || exit 0; for file in {JOB} pid; do [ ! -s "$file" ] || exec head -n 1 "$file"; done'


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
    found = re.search(r"^job (\d+)(?:\njob (\d+_\d+))?$", done.text, re.MULTILINE)
    if done.code == 0 and found is not None:
        return Submitted(found[1], tuple(messages(done)), found[2] or "")
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
    if done.code == _MISSING:
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
            return f"Set `slurm.{key}`{_present(key, words)} to {change}." if key else change
    return "Correct the options below `slurm` in the target or the run configuration."


def _present(key: str, words: Sequence[str]) -> str:
    """Return the value of an option in parentheses, with a leading space; "" if it is not set."""
    option = f"{VALUES[key]}="
    return next((f" ({word.removeprefix(option)})" for word in reversed(words) if word.startswith(option)), "")


def messages(done: Completed) -> list[str]:
    """Return the messages of a Slurm command without their prefixes."""
    lines = done.stderr.decode("utf-8", "replace").split("\n")
    return [shown for line in lines if (shown := _PREFIX.sub("", line.strip()))]
