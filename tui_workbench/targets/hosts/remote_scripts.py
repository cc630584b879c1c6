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

_IS_ALIVE = """\
field() { set -- ${1##*)}; field=${20}; }
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
"""
# Defines `is_alive` for the values of a pid file: process ID, boot ID and /proc/PID/stat, whose 20th word after the
# name is the start time, which distinguishes the supervising shell from another process with the same ID. It starts
# no process.

_KNOWN = f"""\
[ -f "$run/pid" ] && {{ read -r pid; read -r boot; read -r stat; }} <"$run/pid" 2>/dev/null || exit 0
{_IS_ALIVE}"""
# Reads the pid file.

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
"""Defines `left`, which prints the IDs of processes with the run's ID in their environment. Not every grep has -z.

It can miss a process: Linux shows no environment during `exec`, usually for less than a millisecond.
"""

_GONE = f"""\
{PROCESSES_OF_RUN}
gone() {{
    for look in 1 2 3 4 5; do
        [ $look -eq 1 ] || sleep 0.1
        for id; do
            shift
            [ -n "$(set +f; left)" ] || set -- "$@" "$id"
        done
        [ $# -gt 0 ] || return
    done
    echo "$*"
}}
"""
# Also defines `gone`, which prints those of its arguments, the IDs of runs, that have no process in five searches,
# because a search can miss a process. All runs share the pauses, so that many runs do not delay a listing.

LEFT = f"""\
run=$1 id=$2
{_GONE}
is_noted() {{ read -r code <"$run/exit" && [ -n "$code" ]; }} 2>/dev/null
while ! is_noted && [ -z "$(gone "$id")" ]; do sleep 0.5; done &
waiter=$!
{_WATCH_INPUT}"""
"""$1: run directory, $2: run ID. Ends when no process has the run's ID, or when the exit code is written."""

WARN = f"""\
run=$1 id=$2
{_KNOWN}
is_alive || exit 0
{PROCESSES_OF_RUN}
pids=$(left | grep -vx "$pid") || {{ sleep 0.1; pids=$(left | grep -vx "$pid"); }}
for one in $pids; do
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
misses=0
while :; do
    if ! pids=$(left | grep -vx "$pid"); then
        misses=$((misses + 1))
        [ $misses -lt 2 ] || {{ [ $misses -lt 60 ] && is_alive; }} || break
        sleep 0.01
        continue
    fi
    misses=0
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
is_alive && kill -KILL "$pid"
echo "$forced $count"
"""
"""$1: run directory, $2: run ID, $3: number of 50 ms pauses before SIGKILL, $4: seconds for helper processes to end.

Prints `forced` or `-`, and the number of processes that received SIGTERM. The supervising shell ends itself with the
script. It is killed if it is still alive after 60 searches without a process, which take about a second.
"""

FOLLOW_RUNS = f"""\
cd -- "$1" 2>/dev/null || cd /
in_containers=$2
set -f
{_IS_ALIVE}
{_GONE}
has_code() {{ code=; read -r code <"$1/exit"; [ -n "$code" ]; }}
is_supervised() {{ {{ read -r pid; read -r boot; read -r stat; }} <"$1/pid" && is_alive; }}
know() {{
    shells= logs=
    for id; do
        pid=
        is_supervised "$id" || pid=
        shells="$shells $id:$pid" logs="$logs $id/output.log"
    done
}}
state_of() {{
    state=over
    has_code "$id" && return
    [ -n "$in_containers" ] && state=runs && return
    [ -n "$1" ] && kill -0 "$1" && state=runs && return
    is_supervised "$id" && state=runs && return
    # The shell may have written the exit code since the first look.
    [ ! -f "$id/pid" ] || has_code "$id" || state=left
}}
list() {{
    orphans=
    for shell in $shells; do
        id=${{shell%:*}}
        state_of "${{shell##*:}}"
        if [ $state = left ]; then orphans="$orphans $id"; else echo "= $id $state"; fi
    done
    [ -z "$orphans" ] || ended=" $(gone $orphans) "
    for id in $orphans; do
        case $ended in *" $id "*) state=over ;; *) state=left ;; esac
        echo "= $id $state"
    done
    [ -z "$logs" ] || wc -c $logs
}}
follow() {{
    printf '\\n: %s\\n' "$1"
    shift
    before= looks=0
    while kill -0 $$; do
        [ $((looks % 20)) -ne 0 ] || {{ know "$@"; before=; }}
        looks=$((looks + 1))
        now=$(list)
        [ "$now" = "$before" ] || printf '%s\\n.\\n' "$now" || exit
        before=$now
        sleep 0.5
    done
}}
follower=
while read -r request; do
    [ -z "$follower" ] || {{ kill "$follower"; wait "$follower"; }}
    follow $request </dev/null &
    follower=$!
done 2>/dev/null
kill "$follower" 2>/dev/null
"""
"""$1: the folder of all runs, $2: not empty for runs in containers. Each line of the input is a number and the IDs of
runs to follow instead of the earlier ones. The script ends with its input, so that it ends when the connection is lost.

Prints `: NUMBER`, and then a listing whenever it has changed and every ten seconds: a line `= ID STATE` for each run,
the sizes of the logs as `wc -c` prints them, and `.`. An incomplete listing may precede `: NUMBER`. The state is
`runs`, `left` if the supervising shell was killed while the script continues, or `over` for everything else: the script
has ended or was never started, or its files are missing. For a run in a container, it is `over` if there is an exit
code, and `runs` for everything else, because only the engine knows whether the container has ended.

A listing of any number of runs starts only two processes. Therefore it usually checks only that the ID of each shell is
in use; every ten seconds, it also compares the start times of these processes.
"""
