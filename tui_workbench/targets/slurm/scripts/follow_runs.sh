# $1: runRoot, $2: seconds between two listings. Prints the listing of the runs that have started whenever it has
# changed. `cat` detects the end of the connection.
cd -- "$1" || exit
pause=$2
. ./list_runs.sh
look() {
    set --
    for path in started/*; do
        [ ! -d "runs/${path#started/}" ] || set -- "$@" "${path#started/}"
    done
    list "$@"
}
exec 3<&0
{
    before=none
    while :; do
        now=$(look 2>/dev/null)
        [ "$now" = "$before" ] || { printf '%s\n' "$now" && before=$now && finish; } || exit
        sleep "$pause"
    done
} </dev/null 3<&- &
follower=$!
{ cat <&3; kill "$follower"; } >/dev/null 2>&1 &
exec 3<&-
wait "$follower"
