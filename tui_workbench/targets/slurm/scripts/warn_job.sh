# $1: run directory. Sends SIGTERM to the job. As in stop_job.sh, a task of an array is signaled by its own ID.
cd -- "$1" 2>/dev/null && read -r job <pid || exit 0
found=$(squeue -h -j "$job" -o '%A|%i') || exit 0
task=$(printf '%s\n' "$found" | grep "^$job|" | head -n 1 | cut -d'|' -f2)
[ -z "$task" ] || scancel --signal=TERM "$task"
