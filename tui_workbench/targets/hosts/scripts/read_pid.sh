# Reads the pid file.
# shellcheck disable=SC2154  # the script that uses this file sets `run`
[ -f "$run/pid" ] && { read -r pid; read -r boot; read -r stat; } <"$run/pid" 2>/dev/null || exit 0
. ./alive.sh
