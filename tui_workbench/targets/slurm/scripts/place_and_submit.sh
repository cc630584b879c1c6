# $1: the script of `Placing`, $2 to $7: its arguments, then submit.sh and its arguments. The input is that of both
# scripts. If the run's copy does not exist afterwards, nothing is submitted and nothing is printed.
placed=$(head -c "$7" | sh -c "$1" sh "$2" "$3" "$4" "$5" "$6" "$7" 2>/dev/null) && [ "$placed" = placed ] || exit 0
script=$8
shift 8
exec sh -c "$script" sh "$@"
