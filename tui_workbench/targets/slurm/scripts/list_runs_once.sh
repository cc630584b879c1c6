# $1: runRoot, then run IDs. Prints the listing of these runs.
cd -- "$1" || exit
shift
. ./list_runs.sh
list "$@" 2>/dev/null
finish
