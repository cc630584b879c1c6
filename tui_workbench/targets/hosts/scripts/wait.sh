# $1: run directory. Ends when the supervising shell has ended.
run=$1
. ./read_pid.sh
is_alive || exit 0
if tail --version >/dev/null 2>&1; then tail --pid="$pid" -s 0.05 -f /dev/null &
else while is_alive; do sleep 0.5; done & fi
waiter=$!
. ./watch_input.sh
