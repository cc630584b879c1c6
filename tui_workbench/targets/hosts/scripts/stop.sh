# $1: run directory, $2: run ID, $3: number of 50 ms pauses before SIGKILL, $4: seconds for helper processes to end.
#
# Prints `forced` or `-`, and the number of processes that received SIGTERM. The supervising shell ends itself with the
# script. It is killed if it is still alive after 60 searches without a process, which take about a second.
run=$1 id=$2 ticks=$3
. ./read_pid.sh
. ./processes_of_run.sh
asked=' ' forced=- count=0
# shellcheck disable=SC2143  # grep reads all of its input, so that `left` is not killed
if [ -n "${4-}" ] && [ -n "$(left | grep -vx "$pid")" ]; then sleep "$4"; fi
misses=0
while :; do
    if ! pids=$(left | grep -vx "$pid"); then
        misses=$((misses + 1))
        [ $misses -lt 2 ] || { [ $misses -lt 60 ] && is_alive; } || break
        sleep 0.01
        continue
    fi
    misses=0
    if [ "$ticks" -gt 0 ]; then
        for one in $pids; do
            case $asked in *" $one "*) continue ;; esac
            asked="$asked$one " count=$((count + 1))
            kill -TERM "$one"
            kill -CONT "$one"
        done 2>/dev/null
        ticks=$((ticks - 1))
    else
        forced=forced
        # shellcheck disable=SC2086  # the IDs are arguments
        kill -KILL $pids 2>/dev/null
    fi
    sleep 0.05
done
is_alive && kill -KILL "$pid"
echo "$forced $count"
