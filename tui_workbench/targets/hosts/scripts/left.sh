# $1: run directory, $2: run ID. Ends when no process has the run's ID, or when the exit code is written.
run=$1 id=$2
. ./gone.sh
is_noted() { read -r code <"$run/exit" && [ -n "$code" ]; } 2>/dev/null
while ! is_noted && [ -z "$(gone "$id")" ]; do sleep 0.5; done &
waiter=$!
. ./watch_input.sh
