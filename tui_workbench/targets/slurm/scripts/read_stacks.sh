# $1: the run's directory, $2: py-spy, then the command to execute on each node. Each node writes to its own file,
# because srun mixes the outputs of nodes. The ID of one task of an array is also that of the array, so squeue may list
# other tasks. The exit code is 93 if py-spy is missing. A line of the control character GS follows each output.
run=$1
[ -x "$2" ] || exit 93
shift 2
job=$(head -n 1 "$run/pid" 2>/dev/null) && [ -n "$job" ] || exit 0
found=$(squeue -h -j "$job" -o '%A %D') || exit
nodes=$(printf '%s\n' "$found" | sed -n "s/^$job //p")
[ -n "$nodes" ] || exit 0
umask 077
out=$(mktemp -d "$run/stacks.XXXXXX") || exit
trap 'rm -rf "$out"' EXIT
trap 'exit 1' HUP INT TERM
srun --jobid="$job" --overlap --mem=0 --input=none --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 \
    --output="$out/%n" -- "$@"
code=$?
for one in "$out"/*; do
    [ -e "$one" ] || continue
    cat "$one"
    printf '\035\n'
done
exit "$code"
