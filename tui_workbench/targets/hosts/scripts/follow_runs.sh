# $1: the folder of all runs, $2: not empty for runs in containers. Each line of the input is a number and the IDs of
# runs to follow instead of the earlier ones. The script ends with its input, so that it ends when the connection is
# lost.
#
# Prints `: NUMBER`, and then a listing whenever it has changed and every ten seconds: a line `= ID STATE` for each run,
# the sizes of the logs as `wc -c` prints them, and `.`. An incomplete listing may precede `: NUMBER`. The state is
# `runs`, `left` if the supervising shell was killed while the script continues, or `over` for everything else: the
# script has ended or was never started, or its files are missing. For a run in a container, it is `over` if there is an
# exit code, and `runs` for everything else, because only the engine knows whether the container has ended.
#
# A listing of any number of runs starts only two processes. Therefore it usually checks only that the ID of each shell
# is in use; every ten seconds, it also compares the start times of these processes.
cd -- "$1" 2>/dev/null || cd /
in_containers=$2
set -f
. ./alive.sh
. ./gone.sh
has_code() { code=; read -r code <"$1/exit"; [ -n "$code" ]; }
is_supervised() { { read -r pid; read -r boot; read -r stat; } <"$1/pid" && is_alive; }
know() {
    shells= logs=
    for id; do
        pid=
        is_supervised "$id" || pid=
        shells="$shells $id:$pid" logs="$logs $id/output.log"
    done
}
state_of() {
    state=over
    has_code "$id" && return
    [ -n "$in_containers" ] && state=runs && return
    [ -n "$1" ] && kill -0 "$1" && state=runs && return
    is_supervised "$id" && state=runs && return
    # The shell may have written the exit code since the first look.
    [ ! -f "$id/pid" ] || has_code "$id" || state=left
}
list() {
    orphans=
    for shell in $shells; do
        id=${shell%:*}
        state_of "${shell##*:}"
        if [ $state = left ]; then orphans="$orphans $id"; else echo "= $id $state"; fi
    done
    # shellcheck disable=SC2086  # the IDs are arguments
    [ -z "$orphans" ] || ended=" $(gone $orphans) "
    for id in $orphans; do
        case $ended in *" $id "*) state=over ;; *) state=left ;; esac
        echo "= $id $state"
    done
    # shellcheck disable=SC2086  # the paths are arguments
    [ -z "$logs" ] || wc -c $logs
}
follow() {
    printf '\n: %s\n' "$1"
    shift
    before= looks=0
    while kill -0 $$; do
        [ $((looks % 20)) -ne 0 ] || { know "$@"; before=; }
        looks=$((looks + 1))
        now=$(list)
        [ "$now" = "$before" ] || printf '%s\n.\n' "$now" || exit
        before=$now
        sleep 0.5
    done
}
follower=
while read -r request; do
    [ -z "$follower" ] || { kill "$follower"; wait "$follower"; }
    # shellcheck disable=SC2086  # the words are arguments
    follow $request </dev/null &
    follower=$!
done 2>/dev/null
kill "$follower" 2>/dev/null
