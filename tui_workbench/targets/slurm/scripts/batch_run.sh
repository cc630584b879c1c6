# The batch script of a run after the setup. $1: `yes` if the step starts torchrun on several nodes, $2: the script that
# samples the GPUs of the job, or "", then words of the command of srun: options, `--`, and the program that executes the
# step. Variables and functions are those of batch_begin.sh.
#
# Slurm's own messages about the step go to slurm.log with the output of srun, so that output.log has only the script's
# bytes. Since Slurm 22.05, srun does not inherit --cpus-per-task from sbatch. srun needs slurmctld, which may be
# restarting, so srun is called again until the step has begun: up to 60 times, with pauses of 5 seconds. The job ID of
# one task of an array is also that of the array, so squeue gets the other ID, such as `12_3`. srun of Slurm 22.05 exits
# with 0 even if a node has failed, so each task that succeeds removes its file in `unfinished`; a file that is left
# shows the failure.
#
# A slurmctld that was killed may have no record that it started the job. Then the job is pending again: this start must
# leave no files, or slurmctld kills it. The next start of the job executes the step, unless the step has begun. If the
# next start is already running on another node, this one must not change its files.
#
# shellcheck disable=SC2034,SC2154
if [ "$1" = yes ]; then
    # The first node lists the nodes, and is the rendezvous of torchrun. The logs of the nodes exist before the step
    # starts, because NFS may hide a new file from other nodes for a minute. The blanks in `exit` mean that torchrun is
    # running, and reserve the space for its exit code. The ports are below those that Linux gives to connections; two
    # jobs rarely share a node and the last four digits of their IDs.
    names=$(scontrol show hostnames "$SLURM_JOB_NODELIST") && [ -n "$names" ] ||
        setup_failed 1 "scontrol show hostnames $SLURM_JOB_NODELIST"
    WORKBENCH_NODES=
    for name in $names; do
        [ -n "$WORKBENCH_NODES" ] || WORKBENCH_RENDEZVOUS=$name:$((20000 + SLURM_JOB_ID % 10000))
        node=$run/ranks/$name
        (umask 077; mkdir -p "$node" && : >>"$node/output.log" && printf '%31s\n' '' >"$node/exit") || end 1
        WORKBENCH_NODES="$WORKBENCH_NODES $name:$(($(wc -c <"$node/output.log")))"
    done
    export WORKBENCH_NODES WORKBENCH_RENDEZVOUS
fi
rm -rf "$run/unfinished" && mkdir "$run/unfinished" && : >"$run/unfinished/0" || exit
execute() {
    srun --input=none --unbuffered --export=ALL --kill-on-bad-exit=1 \
        ${SLURM_CPUS_PER_TASK:+"--cpus-per-task=$SLURM_CPUS_PER_TASK"} "$@" "$run/step" 4>&-
    code=$?
}
if [ -n "$2" ]; then
    # The sampler ends with the script, so that the job ends at once. With `--mem=0`, it takes no memory from the script.
    printf %s "$2" >"$run/sampler"
    srun --overlap --mem=0 --input=none --export=ALL -- /bin/sh "$run/sampler" "$run" "$id" 4>&- &
    sampler=$!
fi
shift 2
execute "$@"
job=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}
left=60 again=yes
while [ "$code" -ne 0 ] && ! has_begun && [ "$left" -gt 0 ]; do
    left=$((left - 1))
    state=$(squeue -h -j "$job" -o %T%B 2>&1)
    case $state$again in
        "RUNNING$SLURMD_NODENAME"yes) again= && execute "$@" ;;
        RUNNING"$SLURMD_NODENAME") left=0 ;;
        RUNNING*) exit 0 ;;
        PENDING*) abandon ;;
        *"Invalid job id"*) left=0 ;;
        *"error: "*) again=yes && sleep 5 ;;
        *) left=0 ;;
    esac
done
[ "$code" -eq 0 ] || has_begun || echo 'workbench-tui: srun has not started the script'
[ "$code" -ne 0 ] || rmdir "$run/unfinished" 2>/dev/null || exit 1
end "$code"
