"""The shell scripts of a run on a cluster: the batch script, and the step that executes the user's script.

The batch script supervises the step, as `hosts.supervisor` does on other targets. It runs on the first node of the job,
and the step on every node. All paths are on the file system that the nodes and the login node share.

```
batch       in a sweep: the batch script
pid         the ID of the job; created exclusively, so that a duplicate job ends at once
begun       exists if the step has begun, so that a job that is requeued without `requeue` ends at once
exit        the script's exit code
attempt     the number of the attempt that the workbench has started last; missing for the first attempt
attempts/N  with `requeue`: a folder for each time that Slurm has started the script, from 1 on
  begin     the size of output.log at the beginning of the attempt, and its first node
  exit      the exit code of the attempt
output.log  written by the first task of the step itself
ranks/N.log written by the other tasks of a step without torchrun
ranks/NODE  with torchrun on several nodes: the files that only this node writes (see sdk/workbench_ranks.py)
gpu/N       GPU samples of node N of the job, written by the script `sampler`
slurm.log   the output of the batch script, of srun and of Slurm
step        the script of the step, readable only by this user, because it contains environment variables
```
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from tui_workbench.core.masking import mask_command
from tui_workbench.targets.base.run_environment import (
    ATTEMPT_VARIABLE,
    PYTHON_PATH_VARIABLE,
    RENDEZVOUS_VARIABLE,
    RENDEZVOUS_WORD,
    RESUME_VARIABLE,
    prefix_env,
)
from tui_workbench.targets.gpu.job_samples import SAMPLER
from tui_workbench.targets.hosts.supervisor import EXIT, OUTPUT, PID, RANKS
from tui_workbench.targets.slurm.containers import ContainerWords

STEP, BEGUN, STARTED, ATTEMPTS, BEGIN, UNFINISHED = "step", "begun", "started", "attempts", "begin", "unfinished"
ATTEMPT = "attempt"
SLURM_LOG = "slurm.log"
_NO_CONTAINER = ContainerWords()

SETUP_FAILED, SETUP_ENDED = "workbench-tui: setup failed", "workbench-tui: setup ended the job"
SETUP_PROBLEMS = (SETUP_FAILED, SETUP_ENDED)
"""The beginnings of lines in slurm.log and output.log."""

SIGNALED = "workbench-tui: the script got SIGTERM"
"""A line in slurm.log."""

NOT_STARTED = "workbench-tui: srun has not started the script"
"""A line in slurm.log."""

NODES_VARIABLE, NODE_VARIABLE, NODE_LOG = "WORKBENCH_NODES", "WORKBENCH_NODE", "output.log"
"""The variables and the file that sdk/workbench_ranks.py uses on several nodes."""

FIRST_PORT = 20000
"""The first of the 10,000 ports for the rendezvous of torchrun on several nodes."""

TRIES, PAUSE_SECONDS = 60, 5
"""Number of attempts to call srun while slurmctld is restarting, and seconds between them."""

ATTEMPT_BEGINNING = "workbench-tui: attempt "
ATTEMPT_LINE = f"{ATTEMPT_BEGINNING}%s on node %s"
"""A line of slurm.log: the number of the attempt that begins, and its first node."""

# An earlier attempt may have run on the same node, where NFS may still show its files. `ls` makes NFS read the folder
# again.
#
# The claim redirects `printf`, because in `sh` a failed redirection of a special built-in such as `exec` or `:` ends
# the shell. Slurm's own messages about the step go to slurm.log with the output of srun, so that output.log has only
# the script's bytes. Since Slurm 22.05, srun does not inherit --cpus-per-task from sbatch. srun needs slurmctld, which
# may be restarting, so srun is called again until the step has begun. The job ID of one task of an array is also that
# of the array, so squeue gets the other ID, such as `12_3`. srun of Slurm 22.05 exits with 0 even if a node has failed,
# so each task that succeeds removes its file in `unfinished`; a file that is left shows the failure.
#
# A slurmctld that was killed may have no record that it started the job. Then the job is pending again: this start must
# leave no files, or slurmctld kills it. The next start of the job executes the step, unless the step has begun. If the
# next start is already running on another node, this one must not change its files.
_BATCH = """\
#!{shell}
run={run}
root={root}
id={run_id}
first={attempt} attempt= sampler=
mask=$(umask)
umask 077
[ "$first" -eq 1 ] || ls "$run" >/dev/null
# The step of a run that has ended is removed, so that a later start of its job does nothing.
[ -e "$run/{step}" ] || exit 0
: >>"$run/{output}" || exit 1
has_begun() {{ [ -e "$run/{begun}" ]; }}
set -C
{claim}\
set +C
printf '    \\n' >"$run/{exit}" || {{ rm -f "$run/{exit}" "$run/{pid}"; exit 1; }}
exec 4<>"$run/{exit}"
mkdir -p "$root/{started}" && : >"$root/{started}/$id"
trap : TERM INT HUP
umask "$mask"
end() {{
    [ -z "$attempt" ] || printf '%s\\n' "$1" >"$attempt/{exit}"
    printf '%-4s\\n' "$1" >&4
    [ -z "$sampler" ] || {{ kill -USR1 "$sampler"; (sleep 2; kill -KILL "$sampler") & wait "$sampler"; }} 2>/dev/null
    exit "$1"
}}
abandon() {{
    rm -rf "$run/{exit}" "$run/{pid}" ${{attempt:+"$attempt"}}
    exit 0
}}
fail() {{
    printf '%s\\n' "$2" >>"$run/{output}"
    printf '%s\\n' "$2"
    end "$1"
}}
setup_failed() {{
    trap - EXIT
    fail "$1" "{setup_failed} with exit code $1: $2"
}}
setup_ended() {{
    trap - EXIT
    exec 4<>"$run/{exit}"  # closed while setup is executed
    [ "$1" -ne 0 ] || set -- 1
    fail "$1" "{setup_ended}: $command"
}}
{setup}\
{meeting}\
rm -rf "$run/{unfinished}" && mkdir "$run/{unfinished}" && : >"$run/{unfinished}/0" || exit
execute() {{
    srun --input=none --unbuffered --export=ALL --kill-on-bad-exit=1 \\
        ${{SLURM_CPUS_PER_TASK:+"--cpus-per-task=$SLURM_CPUS_PER_TASK"}}{options} -- \\
        {program}/bin/sh "$run/{step}" 4>&-
    code=$?
}}
{sampler}execute
job=${{SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}}${{SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}}
left={tries} again=yes
while [ "$code" -ne 0 ] && ! has_begun && [ "$left" -gt 0 ]; do
    left=$((left - 1))
    state=$(squeue -h -j "$job" -o %T%B 2>&1)
    case $state$again in
        "RUNNING$SLURMD_NODENAME"yes) again= && execute ;;
        RUNNING"$SLURMD_NODENAME") left=0 ;;
        RUNNING*) exit 0 ;;
        PENDING*) abandon ;;
        *"Invalid job id"*) left=0 ;;
        *"error: "*) again=yes && sleep {pause} ;;
        *) left=0 ;;
    esac
done
[ "$code" -eq 0 ] || has_begun || echo '{not_started}'
[ "$code" -ne 0 ] || rmdir "$run/{unfinished}" 2>/dev/null || exit 1
end "$code"
"""

_CLAIM = f"""\
printf '%s\\n' "$SLURM_JOB_ID" 2>/dev/null >"$run/{PID}" ||
    {{ [ "$(head -n 1 "$run/{PID}")" = "$SLURM_JOB_ID" ] && ! has_begun; }} ||
    {{ [ -s "$run/{PID}" ] && exit 0; exit 1; }}
"""

# The job has the same ID in each attempt. Another job with the same name must not execute the run. An attempt may still
# run on a node that slurmctld considers failed. It must not write its exit code as that of this attempt, so each
# attempt makes a new file.
_CLAIM_ATTEMPT = f"""\
printf '%s\\n' "$SLURM_JOB_ID" 2>/dev/null >"$run/{PID}" || [ "$(head -n 1 "$run/{PID}")" = "$SLURM_JOB_ID" ] || exit 0
number=$((${{SLURM_RESTART_COUNT:-0}} + first))
export {ATTEMPT_VARIABLE}="$number"
[ "$number" -eq 1 ] || export {RESUME_VARIABLE}=1
attempt=$run/{ATTEMPTS}/$number
mkdir -p "$run/{ATTEMPTS}" || exit 1
mkdir "$attempt" 2>/dev/null || {{ [ -d "$attempt" ] && ! has_begun; }} || {{ [ -d "$attempt" ] && exit 0; exit 1; }}
rm -f "$run/{EXIT}" "$run/{BEGUN}"
printf '%s %s\\n' "$(($(wc -c <"$run/{OUTPUT}")))" "$SLURMD_NODENAME" >|"$attempt/{BEGIN}" || exit 1
printf '{ATTEMPT_LINE}\\n' "$number" "$SLURMD_NODENAME"
"""

_SETUP = """\
command={quoted}
{{
{line}
}} 4>&- || setup_failed $? {quoted}
"""

# A command of `setup` that ends the shell would leave the run without an exit code. The rest of this script needs the
# usual options of the shell, and srun.
_BEFORE_SETUP = """\
trap 'setup_ended "$?"' EXIT
"""
_AFTER_SETUP = """\
trap - EXIT
set +eufC
command -v srun >/dev/null || setup_failed 127 'srun is not on the PATH after `setup`'
"""

# The first node lists the nodes, and is the rendezvous of torchrun. The logs of the nodes exist before the step starts,
# because NFS may hide a new file from other nodes for a minute. The blanks in `exit` mean that torchrun is running, and
# reserve the space for its exit code. The ports are below those that Linux gives to connections; two jobs rarely share
# a node and the last four digits of their IDs.
_MEETING = f"""\
names=$(scontrol show hostnames "$SLURM_JOB_NODELIST") && [ -n "$names" ] ||
    setup_failed 1 "scontrol show hostnames $SLURM_JOB_NODELIST"
{NODES_VARIABLE}=
for name in $names; do
    [ -n "${NODES_VARIABLE}" ] || {RENDEZVOUS_VARIABLE}=$name:$(({FIRST_PORT} + SLURM_JOB_ID % 10000))
    node=$run/{RANKS}/$name
    (umask 077; mkdir -p "$node" && : >>"$node/{NODE_LOG}" && printf '%31s\\n' '' >"$node/{EXIT}") || end 1
    {NODES_VARIABLE}="${NODES_VARIABLE} $name:$(($(wc -c <"$node/{NODE_LOG}")))"
done
export {NODES_VARIABLE} {RENDEZVOUS_VARIABLE}
"""

# The sampler ends with the script, so that the job ends at once. With `--mem=0`, it takes no memory from the script.
_SAMPLER = f"""\
cat >"$run/sampler" <<'END OF THE SAMPLER'
{SAMPLER}\
END OF THE SAMPLER
srun --overlap --mem=0 --input=none --export=ALL -- /bin/sh "$run/sampler" "$run" "$id" 4>&- &
sampler=$!
"""

_OTHER_TASK = f'log=$run/{RANKS}/$task.log && mkdir -p "$run/{RANKS}" && : >>"$log" || exit'
_OTHER_NODE = f"log=$run/{RANKS}/$SLURMD_NODENAME/{NODE_LOG}"

# The interpreter is found before the variables of the run are set, because they may change PATH and HOME. Only the
# script writes to its log: the shell's own output, such as "Terminated" when a signal ends the script, goes to
# slurm.log.
_STEP = """\
run={run}
task=${{SLURM_PROCID:-0}}
mask=$(umask)
umask 077
: >"$run/{unfinished}/$task" || exit
case $task in
    0) log=$run/{output} && : >"$run/{begun}" || exit ;;
    *) {others} ;;
esac
umask "$mask"
set -- {interpreter}
case $1 in
    "~/"*) set -- "$HOME/${{1#"~/"}}" ;;
    */*) ;;
    python) set -- "$(command -v python || command -v python3 || echo python)" ;;
    *) set -- "$(command -v -- "$1" || printf %s "$1")" ;;
esac
command -v -- "$1" >/dev/null || {{
    printf 'workbench-tui: pythonLocation %s does not exist on node %s\\n' "$1" "$SLURMD_NODENAME" >>"$log"
    exit 127
}}
mkdir -p -- {share}
trap : INT HUP
trap "echo '{signaled}'" TERM
(
    cd -- "$run/work" || exit
{exports}\
    exec {command}
) >>"$log" 2>&1
code=$?
[ "$code" -ne 0 ] || rm -f "$run/{unfinished}/$task"
exit "$code"
"""


def batch_script(
    run_id: str,
    directory: str,
    root: str,
    setup: Sequence[str],
    *,
    attempt: int = 1,
    requeues: bool = False,
    samples: bool = False,
    meets: bool = False,
    container: ContainerWords = _NO_CONTAINER,
) -> str:
    """Return the batch script of attempt `attempt` of a run whose directory is `directory`, below `root`.

    With `requeues`, the script runs again each time Slurm requeues the job; without it, a requeued job ends at once.
    With `samples`, the job samples its GPUs while the script runs. With `meets`, the step starts torchrun on several
    nodes. srun starts the step in `container`. Each item of `setup` is a shell command; the run ends if one fails. The
    commands run in a login shell, which defines `module`.
    """
    steps = (_SETUP.format(line=line, quoted=shlex.quote(mask_command(line.strip().split("\n")[0]))) for line in setup)
    return _BATCH.format(
        shell="/bin/bash -l" if setup else "/bin/sh",
        run=shlex.quote(directory),
        root=shlex.quote(root),
        run_id=shlex.quote(run_id),
        attempt=attempt,
        claim=_CLAIM_ATTEMPT if requeues else _CLAIM,
        setup="".join((_BEFORE_SETUP, *steps, _AFTER_SETUP)) if setup else "",
        options="".join(f" {shlex.quote(word)}" for word in container.options),
        program="".join(f"{shlex.quote(word)} " for word in container.program),
        sampler=_SAMPLER if samples else "",
        meeting=_MEETING if meets else "",
        setup_failed=SETUP_FAILED,
        setup_ended=SETUP_ENDED,
        not_started=NOT_STARTED,
        tries=TRIES,
        pause=PAUSE_SECONDS,
        output=OUTPUT,
        pid=PID,
        exit=EXIT,
        step=STEP,
        begun=BEGUN,
        started=STARTED,
        unfinished=UNFINISHED,
    )


def array_script(folder: str, *, has_setup: bool) -> str:
    """Return the batch script of the array in `folder`: each task starts the batch script of its run."""
    shell = "/bin/bash -l" if has_setup else "/bin/sh"
    return (
        f'#!/bin/sh\nrun=$(cat {shlex.quote(folder)}/"$SLURM_ARRAY_TASK_ID") && cd "$run" && exec {shell} "$run/batch"'
    )


def step_script(
    directory: str,
    share: str,
    command: Sequence[str],
    variables: Mapping[str, str],
    *,
    inherits_path: bool,
    meets: bool = False,
) -> str:
    """Return the shell script of the step of a run.

    Args:
        directory: The run's directory.
        share: The folder that the runs of a project share.
        command: The interpreter and its arguments; the interpreter may be a name or begin with `~/`.
        variables: The variables to set; their names and values may have any characters except NUL.
        inherits_path: Whether the login's PYTHONPATH follows that of `variables`.
        meets: Whether the command starts torchrun on several nodes.

    """
    interpreter, *arguments = command
    # Variables that a shell would drop or overwrite are set by `env`, in front of the interpreter.
    prefix, passing = prefix_env((), variables)
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in passing.items())
    if inherits_path:
        name = PYTHON_PATH_VARIABLE
        exports = f'set -- "$1" "${{{name}:+:${name}}}"\n{exports}{name}="${name}$2"\n'
    words = [*map(shlex.quote, prefix), '"$1"', *map(shlex.quote, arguments)]
    if meets:
        exports += f"export {NODE_VARIABLE}=$SLURMD_NODENAME\n"
        # Only the first match is replaced: the option precedes the script, whose arguments may contain the same word.
        words[words.index(shlex.quote(RENDEZVOUS_WORD))] = f'"{RENDEZVOUS_WORD}"'
    return _STEP.format(
        run=shlex.quote(directory),
        interpreter=shlex.quote(interpreter),
        share=shlex.quote(share),
        exports=exports,
        command=" ".join(words),
        output=OUTPUT,
        others=_OTHER_NODE if meets else _OTHER_TASK,
        signaled=SIGNALED,
        begun=BEGUN,
        unfinished=UNFINISHED,
    )
