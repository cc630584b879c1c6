"""Cancel the job of a run, and wait until Slurm reports its end."""

from __future__ import annotations

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import RunSpec
from tui_workbench.targets.hosts.host_layout import HostLayout
from tui_workbench.targets.hosts.supervisor import EXIT, PID
from tui_workbench.targets.slurm.batch import ATTEMPT
from tui_workbench.targets.slurm.cluster import LoginHost, SlurmSilent
from tui_workbench.targets.slurm.options import JOB_PREFIX, job_name
from tui_workbench.targets.slurm.states import ENDED
from tui_workbench.targets.slurm.submission import CANCELED, JOB

PATIENCE_SECONDS = 60
"""Seconds beyond the grace period for Slurm to end a job. SIGKILL follows after KillWait, which is 30 s by default."""

STOP_SECONDS = 150.0
"""Time limit of a request in seconds, beyond the grace period. A command takes 10 s if slurmctld does not answer."""

LOCK_SECONDS = 60
"""Seconds to wait for a request that is submitting the job: the job can be canceled only after its submission."""

_UNKNOWN = 75  # EX_TEMPFAIL

# $1: run directory, $2: name of the job of the first attempt, $3: tenths of a second between SIGTERM and SIGKILL, $4:
# seconds for the job to end after that. A submission that is still on its way finds `canceled` and submits nothing.
# SIGTERM is sent to the step: if the whole job were canceled, Slurm would kill it after KillWait, whatever the grace
# period is. The job ID of one task of an array is also that of the array, so a task is canceled by its other ID, such
# as `12_3`. The job of another run is not canceled: a slurmctld that lost its last jobs gives their IDs to other jobs.
# Prints `forced` if the script was killed, `ended` if not, and nothing without a job.
_STOP = f"""\
cd -- "$1" 2>/dev/null || exit 0
name=$2 grace=$3 patience=$4 result=ended job=
number=$(head -n 1 {ATTEMPT} 2>/dev/null | grep -x '[0-9]*')
name=$name${{number:+.$number}}
said=$(mktemp) || exit
trap 'rm -f "$said"' EXIT
ask() {{
    squeue -h -t all "$@" 2>"$said" || grep -q 'Invalid job id' "$said" || {{ cat "$said" >&2; exit {_UNKNOWN}; }}
}}
touch {CANCELED} 2>/dev/null
[ ! -e submit.lock ] || {{
    exec 9>>submit.lock
    flock -w {LOCK_SECONDS} 9 2>/dev/null || [ $? -ne 1 ] || {{
        echo 'another request is submitting it' >&2
        exit {_UNKNOWN}
    }}
    exec 9>&-
}}
for file in {PID} {JOB}; do [ -n "$job" ] || job=$(head -n 1 "$file" 2>/dev/null); done
if [ -n "$job" ]; then
    set -- -j "$job"
elif [ -e attempted ]; then
    job=$(squeue -h -u "$(id -un)" -o '%A|%Z' | folder=$1 awk -F'|' '$2 == ENVIRON["folder"] {{ print $1; exit }}')
    if [ -n "$job" ]; then set -- -j "$job"; else set -- -u "$(id -un)" -n "$name"; fi
else
    exit 0
fi
found=$(ask "$@" -o '%A|%i|%T|%r|%j') || exit
job=$(printf '%s\\n' "$found" | grep "^${{job:-[0-9]*}}|" | grep -v '|FAILED|BadConstraints|' |
    sed -n -e "/|$name\\$/p" -e '/|{JOB_PREFIX}/!p' | head -n 1 | cut -d'|' -f2)
[ -n "$job" ] || exit 0
is_listed() {{
    state=$(ask -j "$job" -o %T) || exit
    case $state in
        '' | {"|".join(sorted(ENDED))}) return 1 ;;
    esac
}}
is_written() {{ read -r code <{EXIT} && [ -n "$code" ]; }} 2>/dev/null
wait_for_code() {{
    left=$1
    until is_written || [ "$left" -le 0 ]; do
        sleep 0.1
        left=$((left - 1))
    done
}}
is_listed || exit 0
steps=$(ask -s -j "$job" -o %i | grep -v -e '\\.batch$' -e '\\.extern$' -e '\\.interactive$')
if [ "$state" = RUNNING ] && [ -n "$steps" ]; then
    [ "$grace" -eq 0 ] || scancel --signal=TERM "$job" 2>/dev/null
    wait_for_code "$grace"
    is_written || {{
        result=forced
        scancel --signal=KILL $steps 2>/dev/null
        wait_for_code 50
    }}
fi
# The batch script ends by itself after it has written the exit code. A requeued job has the code of its last attempt.
{{ [ "$state" = RUNNING ] && is_written; }} || scancel "$job" 2>"$said" || {{ cat "$said" >&2; exit 1; }}
while is_listed; do
    [ "$patience" -gt 0 ] || {{ echo "job $job is still $state" >&2; exit {_UNKNOWN}; }}
    [ $((patience % 10)) -ne 5 ] || scancel "$job" 2>/dev/null
    sleep 1
    patience=$((patience - 1))
done
echo "$result"
"""


# $1: run directory. As in _STOP, a task of an array is signaled by its own ID.
_WARN = f"""\
cd -- "$1" 2>/dev/null && read -r job <{PID} || exit 0
found=$(squeue -h -j "$job" -o '%A|%i') || exit 0
task=$(printf '%s\\n' "$found" | grep "^$job|" | head -n 1 | cut -d'|' -f2)
[ -z "$task" ] || scancel --signal=TERM "$task"
"""


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
    arguments = (directory, job_name(spec.run_id), tenths, str(PATIENCE_SECONDS))
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
