# Also defines `gone`, which prints those of its arguments, the IDs of runs, that have no process in five searches,
# because a search can miss a process. All runs share the pauses, so that many runs do not delay a listing.
. ./processes_of_run.sh
gone() {
    for look in 1 2 3 4 5; do
        [ $look -eq 1 ] || sleep 0.1
        for id; do
            shift
            [ -n "$(set +f; left)" ] || set -- "$@" "$id"
        done
        [ $# -gt 0 ] || return
    done
    echo "$*"
}
