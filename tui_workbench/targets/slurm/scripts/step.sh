# The step of a run. $1: the interpreter, $2: the folder that the runs of a project share, $3: `yes` if the step starts
# torchrun on several nodes. The lines before this script assign $run, the run's directory, and define `start`, which
# sets the variables of the run and executes the interpreter that is its argument.
#
# The interpreter is found before the variables of the run are set, because they may change PATH and HOME. Only the
# script writes to its log: the shell's own output, such as "Terminated" when a signal ends the script, goes to
# slurm.log.
#
# shellcheck disable=SC2154
task=${SLURM_PROCID:-0}
mask=$(umask)
umask 077
: >"$run/unfinished/$task" || exit
if [ "$task" = 0 ]; then
    log=$run/output.log
    : >"$run/begun" || exit
elif [ "$3" = yes ]; then
    log=$run/ranks/$SLURMD_NODENAME/output.log
else
    log=$run/ranks/$task.log
    mkdir -p "$run/ranks" && : >>"$log" || exit
fi
umask "$mask"
case $1 in
    \~/*) set -- "$HOME/${1#"~/"}" "$2" ;;
    */*) ;;
    python) set -- "$(command -v python || command -v python3 || echo python)" "$2" ;;
    *) set -- "$(command -v -- "$1" || printf %s "$1")" "$2" ;;
esac
command -v -- "$1" >/dev/null || {
    printf 'workbench-tui: pythonLocation %s does not exist on node %s\n' "$1" "$SLURMD_NODENAME" >>"$log"
    exit 127
}
mkdir -p -- "$2"
trap : INT HUP
trap "echo 'workbench-tui: the script got SIGTERM'" TERM
(
    cd -- "$run/work" || exit
    start "$1"
) >>"$log" 2>&1
code=$?
[ "$code" -ne 0 ] || rm -f "$run/unfinished/$task"
exit "$code"
