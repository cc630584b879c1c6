# Arguments: see `shell_identity.sh`.
. ./shell_identity.sh
set -C
exec 3>"$run/pid" || exit 0
printf '    \n' >"$run/exit" && printf '%s\n%s\n%s\n' "$$" "$boot" "$stat" >&3 || {
    rm -f "$run/exit" "$run/pid"
    exit 1
}
. ./execute.sh
