# $1: run directory, $2: folder that runs share, $3: size of the input, $4: the supervisor's script, then the argument
# vector of the user's script.
#
# The input is the `export` commands for the variables. If the connection is lost before all of them have arrived,
# nothing is started. The commands are evaluated last, so that the PATH of the user's script does not affect this
# script.
run=$1 share=$2 size=$3 text=$4
shift 4
mkdir -p -- "$share" || exit
setsid=$(command -v setsid) || { echo 'setsid not found' >&2; exit 1; }
exports=$(cat)
[ -e "$run/pid" ] && exit 0
[ "$(printf %s "$exports" | wc -c)" -eq "$size" ] || { echo 'some of its variables are missing' >&2; exit 1; }
mask=$(umask)
umask 077
cat /proc/sys/kernel/random/boot_id >"$run/boot" 2>/dev/null
(
    umask "$mask"
    eval "$exports"
    exec "$setsid" /bin/sh -c "$text" sh "$run" "$run/work" "$@"
) </dev/null >/dev/null 2>"$run/start.log" &
# Another process may have started a supervising shell at the same time that has not written its pid yet.
naps=0
while [ ! -s "$run/pid" ] && { kill -0 $! 2>/dev/null || { [ -e "$run/pid" ] && [ $naps -lt 500 ]; }; }; do
    sleep 0.01
    naps=$((naps + 1))
done
[ -s "$run/pid" ] && exit 0
cat -- "$run/start.log" >&2
echo "the supervising shell cannot write to $run" >&2
exit 1
