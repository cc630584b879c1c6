# $1: run directory, $2: size of the step, $3: size of the batch script, $4: name of the job, $5: number of the attempt,
# $6: pattern of temporary errors, $7 to $12: an `ArrayTask` or empty arguments, then the options of sbatch. The input
# is the step and the batch script; nothing happens unless both are complete. sbatch gives its umask to the job. A job
# that sbatch refused is listed as FAILED, BadConstraints.
#
# Exit codes: 65 if sbatch refused the job, 69 without sbatch, 74 if Slurm was not asked, 75 if it is unknown whether
# there is a job, 77 if the run was canceled.
#
# Files in the run directory: `job` has the ID of the job, and on line 2 its ID as a task of an array. `attempted` exists
# if a request may have reached Slurm, `accepted` if sbatch has accepted the job, and `canceled` if a request that is
# still on its way submits nothing.
. ./prepare.sh
run=$1 step=$2 batch=$3 name=$4 attempt=$5 transient=$6 array=$7 sweep=$8 tasks=$9 number=${10} log=${11}
script=${12}
shift 12
mask=$(umask)
umask 077
trap '' HUP PIPE
cd -- "$run" || exit
trap 'rm -f "step.$$" "batch.$$" "task.$$" "said.$$"' EXIT
head -c "$step" >"step.$$" && cat >"batch.$$" || exit
[ "$(wc -c <"step.$$")" -eq "$step" ] && [ "$(wc -c <"batch.$$")" -eq "$batch" ] || {
    echo 'the request is incomplete' >&2
    exit 74
}
. ./lock_run.sh
keep() {
    printf '%s\n' "$@" >"job.$$" && mv -f "job.$$" job || rm -f "job.$$"
    printf 'job %s\n' "$@"
    [ ! -e "said.$$" ] || cat "said.$$" >&2
    exit 0
}
id_in() { printf '%s\n' "$1" | tr -d '\r' | grep -xE '[0-9]+(;[^ ;]+)? *' | tail -n 1 | cut -d';' -f1 | tr -d ' '; }
in_folder() { folder=$1 awk -F'|' 'NF == 2 && $2 == ENVIRON["folder"] { print $1; exit }'; }
doubt() {
    echo 'the job was accepted, but sbatch printed no ID, and squeue does not list the job' >&2
    exit 75
}
look() {
    first='' others=''
    found=$(squeue -h -t all -u "$(id -un)" -n "$name" -o '%A|%T|%r' 2>"said.$$") || {
        cat "said.$$" >&2
        exit 75
    }
    # Only active jobs, because the job of an earlier attempt had the same working directory.
    [ -n "$found" ] || found=$(squeue -h -t PENDING,RUNNING,SUSPENDED -u "$(id -un)" -o '%A|%Z' | in_folder "$run")
    [ -n "$found" ] || found=$(sacct -n -P -X -S now-7days --name "$name" -o JobIDRaw,State 2>/dev/null)
    for job in $(printf '%s\n' "$found" | grep -v -e '|FAILED|BadConstraints$' -e '|FAILED$' | cut -d'|' -f1 | sort -n)
    do
        if [ -z "$first" ]; then first=$job; else others="$others $job"; fi
    done
    # shellcheck disable=SC2086  # several IDs
    [ -z "$others" ] || scancel $others 2>/dev/null
    [ -z "$first" ] || [ -z "$array" ] || scontrol release "$first" 2>/dev/null
    [ -z "$first" ] || keep "$first"
}
enqueue() { (umask "$mask" && exec sbatch "$@"); }
. ./use_array.sh
current=$(cat attempt 2>/dev/null || echo 1)
[ "$current" = "$attempt" ] || { echo "attempt $current has begun" >&2; exit 77; }
[ ! -e canceled ] || { echo 'the run was canceled' >&2; exit 77; }
# shellcheck disable=SC2046  # the ID and, in an array, the ID of the task
[ ! -s job ] || keep $(head -n 2 job)
[ ! -s pid ] || keep "$(head -n 1 pid)"
command -v sbatch >/dev/null || { echo 'sbatch: not found' >&2; exit 69; }
[ ! -e attempted ] || look
: >>attempted && mv -f "step.$$" step || exit
[ -z "$array" ] || use_array "$@"
[ ! -e accepted ] || doubt
found=$(enqueue "$@" <"batch.$$" 2>"said.$$") && {
    : >>accepted
    found=$(id_in "$found")
    [ -z "$found" ] || keep "$found"
    look
    [ ! -s pid ] || keep "$(head -n 1 pid)"
    doubt
}
cat "said.$$" >&2
grep -qE "$transient" "said.$$" && exit 75
look
rm -f attempted
exit 65
