# $1: the run's directory, $2: the run's ID. The lines before this script are those of smi.sh and changes.sh, and assign
# the fields of `smi`: $device_fields, $reading_fields, $process_fields, $throttle and $new_throttle, and $look_seconds.
#
# The batch script sends SIGUSR1 at the end of the run's script. SIGTERM, which warns the run's script of its time limit,
# ends this script only if the run has ended. nvidia-smi prints local times, so TZ is set. SIGUSR2, which no caller
# ignores, ends the processes of this script.
#
# shellcheck disable=SC2154
run=$1 id=$2
umask 077
mkdir -p "$run/gpu" && exec >>"$run/gpu/${SLURM_NODEID:-0}" 2>/dev/null </dev/null || exit
. ./mark_lines.sh
. ./facts.sh
. ./changes.sh
export TZ=UTC
finish() {
    trap '' USR2
    kill -USR2 0
    exit 0
}
is_over() { read -r code <"$run/exit" && [ -n "$code" ]; }
trap finish USR1
trap 'is_over && finish' TERM
run_of_job() {
    grep -Eqs "/job_$SLURM_JOB_ID(/|\$)" /proc/"$1"/cgroup ||
        tr '\0' '\n' </proc/"$1"/environ | grep -qx "SLURM_JOB_ID=$SLURM_JOB_ID" || return
    echo "$id"
}
ask() {
    fields=$2
    while :; do
        said=$(smi "--query-$1=$fields" $form 2>&1)
        unknown=$(printf '%s\n' "$said" | sed -n 's/^Field "\([^"]*\)" is not a valid field.*/\1/p' | head -n 1)
        new=
        [ "$unknown" != "$throttle" ] || new=$new_throttle,
        rest=$(printf '%s' ",$fields," | sed "s/,$unknown,/,$new/; s/^,//; s/,\$//")
        [ -n "$unknown" ] && [ "$rest" != "$fields" ] || break
        fields=$rest
    done
}
printf 'h%s %s\n' "${SLURM_JOB_NUM_NODES:-1}" "$SLURMD_NODENAME"
visible=${CUDA_VISIBLE_DEVICES-${ROCR_VISIBLE_DEVICES-}}
case $visible in
    '' | NoDevFiles) printf 'mthe job has no GPU\n.\n'; exit 0 ;;
esac
command -v "$tool" >/dev/null || { printf 'm%s not found\n.\n' "$tool"; exit 0; }
printf 'v%s\ns%s\n' "$visible" "$tool"
ask gpu "$device_fields"
printf 'Fm%s\n' "$fields"
printf '%s\n' "$said" | mark m
ask gpu "timestamp,$reading_fields"
readings=$fields
printf 'Fg%s\n' "$fields"
ask compute-apps "timestamp,$process_fields"
printf 'Fp%s\n' "$fields"
describe
echo .
(
    trap '' TERM
    while :; do
        smi --query-gpu="$readings" $form -l 1 2>&1 | mark g
        echo x
        sleep 5
    done
) &
(
    trap '' TERM
    while :; do
        smi --query-compute-apps="$fields" $form -l 1 2>&1 | processes
        sleep 5
    done
) &
changes() {
    [ "${SLURM_NODEID:-0}" = 0 ] || return
    new=$(log_mark)
    printf 'w%s\n' "$new"
    [ "$new" = "$old" ] && quiet=$((quiet + 5)) || quiet=0
    old=$new
    # shellcheck disable=SC2119
    [ $quiet -eq 0 ] || [ $((quiet % look_seconds)) -ne 0 ] || printf 'k%s\n' "$(file_mark)"
}
seconds=0 old= quiet=0
while :; do
    sleep 1 &
    wait "$!"
    seconds=$((seconds + 1))
    if [ $((seconds % 5)) -eq 0 ]; then
        printf 't%s\n' "$(date +%s)"
        changes
    fi
    [ $seconds -ne 5 ] && [ $seconds -ne 30 ] && [ $seconds -ne 120 ] && [ $((seconds % 300)) -ne 0 ] && continue
    facts | mark f
done
