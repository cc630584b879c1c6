# $1: run directory, $2: number of the next attempt, $3: name of the job of the first attempt, $4: file that lists the
# run as started, then a command that removes the other files of the job before. A second request for the same attempt
# does nothing. A job without an exit code may still be in the queue, or become active again. The line in slurm.log ends
# the messages about the job before.
. ./prepare.sh
number=$2 name=$3 started=$4
cd -- "$1" 2>/dev/null || { shift 4; exec "$@"; }
shift 4
. ./lock_run.sh
before=$(cat attempt 2>/dev/null)
[ "$before" != "$number" ] || exit 0
{ read -r code <"exit" && [ -n "$code" ]; } 2>/dev/null ||
    scancel -u "$(id -un)" -n "$name${before:+.$before}" 2>/dev/null
"$@" && rm -rf -- job attempted accepted canceled step begun unfinished "$started" || exit
[ ! -e slurm.log ] || printf 'workbench-tui: attempt %s\n' "$number" >>slurm.log || exit
printf '%s\n' "$number" >"attempt.$$" && mv -f "attempt.$$" attempt
