"""The `sh` scripts for runs on machines over SSH. They are executed on the host, but not stored there.

They need only standard tools. A script that waits also reads its input, so that it ends when the connection is lost.
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
"""$1: the value of pythonLocation. Debian has `python3` but no `python`. Prints two lines: path and version."""

START = """\
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
"""
"""$1: run directory, $2: folder that runs share, $3: size of the input, $4: the supervisor's script, then the argument
vector of the user's script.

The input is the `export` commands for the variables. If the connection is lost before all of them have arrived, nothing
is started. The commands are evaluated last, so that the PATH of the user's script does not affect this script.
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
# Reads the pid file: process ID, boot ID and /proc/PID/stat, whose 20th word after the name is the start time,
# which distinguishes the supervising shell from another process with the same ID.

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
"""$1: the folder of the workbench. Prints the IDs of runs whose shell or script is alive, each followed by NUL."""

WAIT = f"""\
run=$1
{_KNOWN}
is_alive || exit 0
if tail --version >/dev/null 2>&1; then tail --pid="$pid" -s 0.05 -f /dev/null &
else while is_alive; do sleep 0.5; done & fi
waiter=$!
{_WATCH_INPUT}"""
"""$1: run directory. Ends when the supervising shell has ended."""

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
"""Defines `left`, which prints the IDs of processes with the run's ID in their environment. Not every grep has -z."""

LEFT = f"""\
run=$1 id=$2
{PROCESSES_OF_RUN}
is_noted() {{ read -r code <"$run/exit" && [ -n "$code" ]; }} 2>/dev/null
while ! is_noted && [ -n "$(left)" ]; do sleep 0.5; done &
waiter=$!
{_WATCH_INPUT}"""
"""$1: run directory, $2: run ID. Ends when no process has the run's ID, or when the exit code is written."""

WARN = f"""\
run=$1 id=$2
{_KNOWN}
is_alive || exit 0
{PROCESSES_OF_RUN}
for one in $(left | grep -vx "$pid"); do
    kill -TERM "$one"
    kill -CONT "$one"
done 2>/dev/null
exit 0
"""
"""$1: run directory, $2: run ID. Sends SIGTERM to the processes of the run, except its supervising shell."""

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
"""$1: run directory, $2: run ID, $3: number of 50 ms pauses before SIGKILL, $4: seconds for helper processes to end.

Prints `forced` or `-`, and the number of processes that received SIGTERM.
"""
