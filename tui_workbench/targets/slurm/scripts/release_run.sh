# $1: runRoot, $2: run ID, $3: folder of the array of its sweep or an empty argument, $4: number of its task. The step
# is removed because it contains the variables of the run. The last active task cancels the tasks that were never
# released, which would be held forever. They still have the name of the array, unless the site renames jobs.
rm -rf -- "$1/started/$2" "$1/runs/$2/step" "$1/runs/$2/batch" "$1/runs/$2/submit.lock" "$1/runs/$2/gpu"
[ -n "$3" ] && cd -- "$3" 2>/dev/null || exit 0
exec 8>>lock
flock -w 20 8 2>/dev/null
rm -f -- "$4"
for task in [0-9]*; do [ ! -e "$task" ] || exit 0; done
scancel -u "$(id -un)" -n "${3##*/}" 2>/dev/null
array=$(head -n 1 job 2>/dev/null | grep -x '[0-9]*') && scancel "$array" 2>/dev/null
rm -rf -- "$3"
