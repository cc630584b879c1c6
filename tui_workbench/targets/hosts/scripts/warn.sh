# $1: run directory, $2: run ID. Sends SIGTERM to the processes of the run, except its supervising shell.
run=$1 id=$2
. ./read_pid.sh
is_alive || exit 0
. ./processes_of_run.sh
pids=$(left | grep -vx "$pid") || { sleep 0.1; pids=$(left | grep -vx "$pid"); }
for one in $pids; do
    kill -TERM "$one"
    kill -CONT "$one"
done 2>/dev/null
exit 0
