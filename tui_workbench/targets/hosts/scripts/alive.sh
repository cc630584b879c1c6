# Defines `is_alive` for the values of a pid file: process ID, boot ID and /proc/PID/stat, whose 20th word after the
# name is the start time, which distinguishes the supervising shell from another process with the same ID. It starts
# no process.
# shellcheck disable=SC2086  # the words are arguments
field() { set -- ${1##*)}; field=${20}; }
# shellcheck disable=SC2154  # the script that uses this file sets the variables
is_alive() {
    kill -0 "$pid" 2>/dev/null || return 1
    now=
    { read -r now </proc/sys/kernel/random/boot_id; } 2>/dev/null
    [ "$boot" = - ] || [ "$boot" = "$now" ] || return 1
    [ "$stat" = - ] && return 0
    { read -r now </proc/"$pid"/stat; } 2>/dev/null || return 1
    case ${now##*)} in " Z"* | " X"*) return 1 ;; esac
    field "$now"
    now=$field
    field "$stat"
    [ "$now" = "$field" ]
}
