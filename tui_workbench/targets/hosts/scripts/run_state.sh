# $1: the run's directory. Prints five parts, separated by a line that no part can contain. The last is `said` of
# `times_there`.
. ./time_of.sh
show() { [ -f "$1" ] && head -c 4096 <"$1"; } 2>/dev/null
show "$1/pid"
printf '\n/\n'
show "$1/exit"
printf '\n/\n'
show "$1/boot"
printf '\n/\n'
cat /proc/sys/kernel/random/boot_id 2>/dev/null
printf '\n/\n'
clock "$1"
cut -d' ' -f1 /proc/uptime 2>/dev/null || echo
time_of "$1/pid" || echo
time_of "$1/exit" || echo
