# $1: fields of a device, $2: of its readings, $3: of its processes (the process ID last). Prints the machine, and after
# a line of input also samples, until the end of the input. The lines before this script are those of smi.sh.
. ./mark_lines.sh
printf 's%s\n' "$tool"
smi --query-gpu="$1" $form 2>&1 | mark m
describe
echo .
read -r _ || exit 0
while :; do
    smi --query-gpu="$2" $form -l 1 2>&1 | mark g
    echo x
    sleep 5
done &
while :; do
    smi --query-compute-apps="$3" $form -l 1 2>&1 | processes
    sleep 5
done &
cat >/dev/null
trap '' TERM
kill 0
