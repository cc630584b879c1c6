# $1: runRoot, $2: the interpreter or "", $3: seconds for the job to end, $4: seconds for its file to appear, $5: the
# text of try_job_on_node.sh, then the options of sbatch. The job reads a file that the login node wrote below `runRoot`,
# and writes another one. Prints the node and the version of the interpreter.
#
# Exit codes: 66 if the node does not share `runRoot`, 75 if the job did not end, or else that of the job.
root=$1 python=$2 left=$3 visible=$4 script=$5
shift 5
umask 077
mkdir -p -- "$root" && try=$(mktemp -d "$root/check.XXXXXX") || exit
trap 'rm -rf -- "$try"' EXIT
echo shared >"$try/login"
printf '%s' "$script" >"$try/job"
job=$(sbatch --parsable --job-name=wb-check --chdir=/ --output=/dev/null --export=NONE "$@" --time=1 \
    "$try/job" "$try" "$python") || exit
job=${job%%;*} node=
while [ "$left" -gt 0 ]; do
    [ ! -s "$try/node" ] || { cat "$try/node"; exit 0; }
    # shellcheck disable=SC2046  # several words
    set -- $(squeue -h -t all -j "$job" -o '%T %r %N')
    case $1 in
        COMPLETED) [ -n "$node" ] || { node=$3 left=$visible; } ;;
        FAILED | NODE_FAIL | BOOT_FAIL | CANCELLED | TIMEOUT)
            echo "$1 $3" >&2
            code=$(scontrol show job "$job" | sed -n 's/.*ExitCode=\([0-9]*\):.*/\1/p')
            # A canceled job has exit code 0.
            [ "${code:-0}" != 0 ] || code=1
            exit "$code" ;;
    esac
    sleep 1
    left=$((left - 1))
done
[ -z "$node" ] || { echo "$1 $node" >&2; exit 66; }
scancel "$job"
echo "${1:-squeue does not answer} $2" >&2
exit 75
