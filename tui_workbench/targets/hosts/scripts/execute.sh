# Executes the script, and writes its exit code. `exit` is open already while the script runs, see `supervisor.py`.
# shellcheck disable=SC2154  # shell_identity.sh sets the variables
exec 3>&- 4<>"$run/exit"
trap : TERM INT HUP
( umask "$mask" && cd "$dir" && exec "$@" ) </dev/null >>"$run/output.log" 2>&1 4>&-
code=$?
printf '%-4s\n' "$code" >&4
[ -z "${WORKBENCH_GPU_RESERVATIONS-}" ] || for link in "$WORKBENCH_GPU_RESERVATIONS"/*; do
    case $(readlink "$link") in "run "*" $run") rm -f -- "$link" ;; esac
done
