# $1: the folder of the workbench. Prints the IDs of runs whose shell or script is alive, each followed by NUL.
cd -- "$1/runs" 2>/dev/null || exit 0
for run in *; do
    (
        . ./read_pid.sh
        is_alive && printf '%s\0' "$run"
    )
done
for one in /proc/[0-9]*; do
    { tr '\0' '\n' <"$one/environ"; } 2>/dev/null | sed -n 's/^WORKBENCH_RUN_ID=//p'
done | sort -u | tr '\n' '\0'
exit 0
