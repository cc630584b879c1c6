# The batch script of a run up to the setup. $1: `yes` if Slurm may start the job several times. The lines before this
# script assign $run, the run's directory, $root, `runRoot`, $id, the run ID, and $first, the number of the attempt.
#
# An earlier attempt may have run on the same node, where NFS may still show its files. `ls` makes NFS read the folder
# again.
#
# The claim redirects `printf`, because in `sh` a failed redirection of a special built-in such as `exec` or `:` ends
# the shell.
#
# shellcheck disable=SC2154
attempt='' sampler=''
mask=$(umask)
umask 077
[ "$first" -eq 1 ] || ls "$run" >/dev/null
# The step of a run that has ended is removed, so that a later start of its job does nothing.
[ -e "$run/step" ] || exit 0
: >>"$run/output.log" || exit 1
has_begun() { [ -e "$run/begun" ]; }
set -C
if [ "$1" = yes ]; then
    # The job has the same ID in each attempt. Another job with the same name must not execute the run. An attempt may
    # still run on a node that slurmctld considers failed. It must not write its exit code as that of this attempt, so
    # each attempt makes a new file.
    printf '%s\n' "$SLURM_JOB_ID" 2>/dev/null >"$run/pid" || [ "$(head -n 1 "$run/pid")" = "$SLURM_JOB_ID" ] || exit 0
    number=$((${SLURM_RESTART_COUNT:-0} + first))
    export WORKBENCH_ATTEMPT="$number"
    [ "$number" -eq 1 ] || export WORKBENCH_RESUME=1
    attempt=$run/attempts/$number
    mkdir -p "$run/attempts" || exit 1
    mkdir "$attempt" 2>/dev/null || { [ -d "$attempt" ] && ! has_begun; } || { [ -d "$attempt" ] && exit 0; exit 1; }
    rm -f "$run/exit" "$run/begun"
    printf '%s %s\n' "$(($(wc -c <"$run/output.log")))" "$SLURMD_NODENAME" >|"$attempt/begin" || exit 1
    printf 'workbench-tui: attempt %s on node %s\n' "$number" "$SLURMD_NODENAME"
else
    printf '%s\n' "$SLURM_JOB_ID" 2>/dev/null >"$run/pid" ||
        { [ "$(head -n 1 "$run/pid")" = "$SLURM_JOB_ID" ] && ! has_begun; } ||
        { [ -s "$run/pid" ] && exit 0; exit 1; }
fi
set +C
# The setup gets no arguments.
set --
printf '    \n' >"$run/exit" || { rm -f "$run/exit" "$run/pid"; exit 1; }
exec 4<>"$run/exit"
mkdir -p "$root/started" && : >"$root/started/$id"
trap : TERM INT HUP
umask "$mask"
end() {
    [ -z "$attempt" ] || printf '%s\n' "$1" >"$attempt/exit"
    printf '%-4s\n' "$1" >&4
    [ -z "$sampler" ] || { kill -USR1 "$sampler"; (sleep 2; kill -KILL "$sampler") & wait "$sampler"; } 2>/dev/null
    exit "$1"
}
abandon() {
    rm -rf "$run/exit" "$run/pid" ${attempt:+"$attempt"}
    exit 0
}
fail() {
    printf '%s\n' "$2" >>"$run/output.log"
    printf '%s\n' "$2"
    end "$1"
}
setup_failed() {
    trap - EXIT
    fail "$1" "workbench-tui: setup failed with exit code $1: $2"
}
setup_ended() {
    trap - EXIT
    # It was closed while setup was executed.
    exec 4<>"$run/exit"
    [ "$1" -ne 0 ] || set -- 1
    fail "$1" "workbench-tui: setup ended the job: $command"
}
# A command of `setup` that ends the shell would leave the run without an exit code.
begin_setup() { trap 'setup_ended "$?"' EXIT; }
# The rest of the script needs the usual options of the shell, and srun.
end_setup() {
    trap - EXIT
    set +eufC
    # shellcheck disable=SC2016
    command -v srun >/dev/null || setup_failed 127 'srun is not on the PATH after `setup`'
}
