# $1: the path of py-spy, $2: its architecture, $3: the run's ID, $4: the maximum number of processes. A machine with
# another architecture can have its own py-spy. Some systems have no `timeout`, or one with other arguments. After an
# error, the stack is read again, because a running process may have changed it meanwhile. At most 16 processes are read
# at the same time.
#
# The exit codes are 93 if py-spy is missing, and 94 if the machine has another architecture and no py-spy.
spy=$1 id=$3 most=$4
[ "$(uname -m)" = "$2" ] || spy=$(command -v py-spy) || { uname -m; exit 94; }
[ -x "$spy" ] || exit 93
. ./processes_of_run.sh
folder=$(mktemp -d 2>/dev/null || TMPDIR=/tmp mktemp -d) || exit
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
limit=
timeout 1 true 2>/dev/null && limit='timeout 10'
ranks() { tr '\0' '\n' <"/proc/$one/environ" | sed -n '/^RANK=[0-9]*$/p; /^SLURM_PROCID=[0-9]*$/p'; }
read_stacks() { $limit "$spy" dump --nonblocking --json --pid "$one" 2>"$folder/$one.error"; }
describe() {
    read -r stat <"/proc/$one/stat"
    # shellcheck disable=SC2086  # the words are arguments
    set -- ${stat##*) }
    printf 'process %s %s\n' "$one" "$2"
    ranks
    echo
    head -c 4000 "/proc/$one/cmdline" | tr '\n\0' ' \037'
    echo
    if read_stacks || read_stacks; then :; else head -c 2000 "$folder/$one.error"; fi
    printf '\n\036\n'
}
count=0
for one in $(left); do
    case $(readlink "/proc/$one/exe") in */python* | */pypy*) ;; *) continue ;; esac
    count=$((count + 1))
    [ $count -le "$most" ] || continue
    describe >"$folder/$one" 2>/dev/null &
    [ $((count % 16)) -ne 0 ] || wait
done
wait
read -r scope 2>/dev/null </proc/sys/kernel/yama/ptrace_scope || scope=-
printf 'stacks %s %s %s\n' "$scope" "$count" "$(uname -n)"
rm -f "$folder"/*.error
[ $count -eq 0 ] || cat "$folder"/*
