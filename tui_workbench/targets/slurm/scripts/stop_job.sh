# $1: run directory, $2: name of the job of the first attempt, $3: tenths of a second between SIGTERM and SIGKILL, $4:
# seconds for the job to end after that, $5: the prefix of the names of all jobs, $6: the states of ended jobs, separated
# by spaces. A submission that is still on its way finds `canceled` and submits nothing. A job can be canceled only after
# its submission, so this waits for a request that is submitting it. SIGTERM is sent to the step: if the whole job were
# canceled, Slurm would kill it after KillWait, whatever the grace period is. The job ID of one task of an array is also
# that of the array, so a task is canceled by its other ID, such as `12_3`. The job of another run is not canceled: a
# slurmctld that lost its last jobs gives their IDs to other jobs.
#
# Prints `forced` if the script was killed, `ended` if not, and nothing without a job. The exit code is 75 if it is
# unknown whether the job has ended.
cd -- "$1" 2>/dev/null || exit 0
name=$2 grace=$3 patience=$4 prefix=$5 ends=$6 result=ended job=
number=$(head -n 1 attempt 2>/dev/null | grep -x '[0-9]*')
name=$name${number:+.$number}
said=$(mktemp) || exit
trap 'rm -f "$said"' EXIT
ask() {
    squeue -h -t all "$@" 2>"$said" || grep -q 'Invalid job id' "$said" || { cat "$said" >&2; exit 75; }
}
touch canceled 2>/dev/null
[ ! -e submit.lock ] || {
    exec 9>>submit.lock
    flock -w 60 9 2>/dev/null || [ $? -ne 1 ] || {
        echo 'another request is submitting it' >&2
        exit 75
    }
    exec 9>&-
}
for file in pid job; do [ -n "$job" ] || job=$(head -n 1 "$file" 2>/dev/null); done
if [ -n "$job" ]; then
    set -- -j "$job"
elif [ -e attempted ]; then
    job=$(squeue -h -u "$(id -un)" -o '%A|%Z' | folder=$1 awk -F'|' '$2 == ENVIRON["folder"] { print $1; exit }')
    if [ -n "$job" ]; then set -- -j "$job"; else set -- -u "$(id -un)" -n "$name"; fi
else
    exit 0
fi
found=$(ask "$@" -o '%A|%i|%T|%r|%j') || exit
job=$(printf '%s\n' "$found" | grep "^${job:-[0-9]*}|" | grep -v '|FAILED|BadConstraints|' |
    sed -n -e "/|$name\$/p" -e "/|$prefix/!p" | head -n 1 | cut -d'|' -f2)
[ -n "$job" ] || exit 0
is_listed() {
    state=$(ask -j "$job" -o %T) || exit
    [ -n "$state" ] || return
    case " $ends " in *" $state "*) return 1 ;; esac
}
is_written() { read -r code <"exit" && [ -n "$code" ]; } 2>/dev/null
wait_for_code() {
    left=$1
    until is_written || [ "$left" -le 0 ]; do
        sleep 0.1
        left=$((left - 1))
    done
}
is_listed || exit 0
steps=$(ask -s -j "$job" -o %i | grep -v -e '\.batch$' -e '\.extern$' -e '\.interactive$')
if [ "$state" = RUNNING ] && [ -n "$steps" ]; then
    [ "$grace" -eq 0 ] || scancel --signal=TERM "$job" 2>/dev/null
    wait_for_code "$grace"
    is_written || {
        result=forced
        # shellcheck disable=SC2086  # several IDs
        scancel --signal=KILL $steps 2>/dev/null
        wait_for_code 50
    }
fi
# The batch script ends by itself after it has written the exit code. A requeued job has the code of its last attempt.
{ [ "$state" = RUNNING ] && is_written; } || scancel "$job" 2>"$said" || { cat "$said" >&2; exit 1; }
while is_listed; do
    [ "$patience" -gt 0 ] || { echo "job $job is still $state" >&2; exit 75; }
    [ $((patience % 10)) -ne 5 ] || scancel "$job" 2>/dev/null
    sleep 1
    patience=$((patience - 1))
done
echo "$result"
