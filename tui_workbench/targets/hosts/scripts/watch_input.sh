exec 3<&0
# shellcheck disable=SC2154  # the script that uses this file sets `waiter`
{ cat <&3; kill "$waiter"; } >/dev/null 2>&1 &
wait "$waiter"
