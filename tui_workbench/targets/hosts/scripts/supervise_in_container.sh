# Arguments: see `shell_identity.sh`. `pid`, `exit` and `output.log` exist as empty files that cannot be replaced. The
# name of the container is unique; a second start of the same container finds a `pid` that is not empty.
. ./shell_identity.sh
[ -s "$run/pid" ] && exit 0
exec 3>>"$run/pid" || exit 1
printf '    \n' >"$run/exit" && printf '%s\n%s\n%s\n' "$$" "$boot" "$stat" >&3 || exit 1
. ./execute.sh
