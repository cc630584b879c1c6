"""The `sh` texts that runs of `type: remote` need on the host. They need what every Linux has, and leave nothing there.

Whatever waits there watches its own input as well: when the link breaks that ends, and nothing is left behind.
"""

from __future__ import annotations

FIND_PYTHON = """\
name=$1
case $name in
    "~/"*) name=$HOME/${name#"~/"} ;;
    /*) ;;
    */*) name=$HOME/$name ;;
    *) found=$(command -v -- "$name") || { [ "$name" = python ] && found=$(command -v python3); } || exit
       name=$found ;;
esac
[ -f "$name" ] && printf '%s\\n' "$name" &&
    "$name" -I -S -c "import sys; print('%d.%d.%d' % sys.version_info[:3])" </dev/null 2>/dev/null
"""
"""$1 as in pythonLocation; a Debian has `python3` and no `python`. Two lines: path and version."""

START = """\
run=$1 share=$2 size=$3 text=$4
shift 4
mkdir -p -- "$share" || exit
setsid=$(command -v setsid) || { echo 'there is no setsid' >&2; exit 1; }
exports=$(cat)
[ -e "$run/pid" ] && exit 0
[ "$(printf %s "$exports" | wc -c)" -eq "$size" ] || { echo 'its variables did not arrive whole' >&2; exit 1; }
mask=$(umask)
umask 077
cat /proc/sys/kernel/random/boot_id >"$run/boot" 2>/dev/null
(
    umask "$mask"
    eval "$exports"
    exec "$setsid" /bin/sh -c "$text" sh "$run" "$run/work" "$@"
) </dev/null >/dev/null 2>"$run/start.log" &
# The shell may be another one, which somebody else started at the same time and which has yet to put its name down.
naps=0
while [ ! -s "$run/pid" ] && { kill -0 $! 2>/dev/null || { [ -e "$run/pid" ] && [ $naps -lt 500 ]; }; }; do
    sleep 0.01
    naps=$((naps + 1))
done
[ -s "$run/pid" ] && exit 0
cat -- "$run/start.log" >&2
echo "the supervising shell cannot write to $run" >&2
exit 1
"""
"""$1 run directory, $2 share, $3 the size of the exports, $4 the supervisor's text, then the script's argument vector.

The exports come as input. Where the connection breaks before all of them are there, nothing is started. They are made
at the last moment: a PATH for the script is none for what comes before.
"""

_KNOWN = """\
[ -f "$run/pid" ] && { read -r pid; read -r boot; read -r stat; } <"$run/pid" 2>/dev/null || exit 0
field() { set -- ${1##*)}; printf '%s' "${20}"; }
is_alive() {
    kill -0 "$pid" 2>/dev/null || return 1
    [ "$boot" = - ] || [ "$boot" = "$(cat /proc/sys/kernel/random/boot_id)" ] || return 1
    [ "$stat" = - ] && return 0
    { read -r now </proc/"$pid"/stat; } 2>/dev/null || return 1
    case ${now##*)} in " Z"* | " X"*) return 1 ;; esac
    [ "$(field "$now")" = "$(field "$stat")" ]
}
"""
# The supervising shell by its own record: process id, start of the machine, and start time, the 20th word behind the
# name in /proc/PID/stat, which tells it from another process that was given its number.

_WATCH_INPUT = """\
exec 3<&0
{ cat <&3; kill "$waiter"; } >/dev/null 2>&1 &
wait "$waiter"
"""

LIVING = f"""\
cd -- "$1/runs" 2>/dev/null || exit 0
for run in *; do
    (
        {_KNOWN}
        is_alive && printf '%s\\0' "$run"
    )
done
for one in /proc/[0-9]*; do
    {{ tr '\\0' '\\n' <"$one/environ"; }} 2>/dev/null | sed -n 's/^WORKBENCH_RUN_ID=//p'
done | sort -u | tr '\\n' '\\0'
exit 0
"""
"""$1 our folder there. The ids of the runs whose supervising shell or script is alive, each ended by a NUL."""

WAIT = f"""\
run=$1
{_KNOWN}
is_alive || exit 0
if tail --version >/dev/null 2>&1; then tail --pid="$pid" -s 0.05 -f /dev/null &
else while is_alive; do sleep 0.5; done & fi
waiter=$!
{_WATCH_INPUT}"""
"""$1 run directory. Ends when the supervising shell has ended."""

PROCESSES_OF_RUN = """\
if printf 'x\\0' | grep -qz x 2>/dev/null; then
    left() { grep -lszFx -- "WORKBENCH_RUN_ID=$id" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3; }
else
    left() {
        for one in /proc/[0-9]*; do
            { tr '\\0' '\\n' <"$one/environ"; } 2>/dev/null | grep -qxF -- "WORKBENCH_RUN_ID=$id" || continue
            echo "${one#/proc/}"
        done
    }
fi
"""
"""Defines `left`: the processes of the run $id, by what they carry in their environment. Not every grep knows -z."""


LEFT = f"""\
run=$1 id=$2
{PROCESSES_OF_RUN}
is_noted() {{ read -r code <"$run/exit" && [ -n "$code" ]; }} 2>/dev/null
while ! is_noted && [ -n "$(left)" ]; do sleep 0.5; done &
waiter=$!
{_WATCH_INPUT}"""
"""$1 run directory, $2 run id. Ends when no process carries the id any more, or the exit code stands there."""

STOP = f"""\
run=$1 id=$2 ticks=$3
{_KNOWN}
{PROCESSES_OF_RUN}
asked=' ' forced=- count=0
if [ -n "${{4-}}" ] && [ -n "$(left | grep -vx "$pid")" ]; then sleep "$4"; fi
while pids=$(left | grep -vx "$pid"); do
    if [ "$ticks" -gt 0 ]; then
        for one in $pids; do
            case $asked in *" $one "*) continue ;; esac
            asked="$asked$one " count=$((count + 1))
            kill -TERM "$one"
            kill -CONT "$one"
        done 2>/dev/null
        ticks=$((ticks - 1))
    else
        forced=forced
        kill -KILL $pids 2>/dev/null
    fi
    sleep 0.05
done
naps=0
while is_alive && [ $naps -lt 40 ]; do sleep 0.025; naps=$((naps + 1)); done
is_alive && kill -KILL "$pid"
echo "$forced $count"
"""
"""$1 run directory, $2 run id, $3 naps of 50 ms between asking and forcing, $4 seconds for helpers to end.

Writes one line: `forced` or `-`, and the number of processes that were asked to end.
"""
